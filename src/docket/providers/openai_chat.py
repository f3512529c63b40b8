"""OpenAI Chat Completions: endpoints, requests and answers (POST /v1/chat/completions)."""
