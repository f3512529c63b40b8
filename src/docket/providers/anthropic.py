"""Anthropic Messages: endpoints, requests and answers (POST /v1/messages)."""
