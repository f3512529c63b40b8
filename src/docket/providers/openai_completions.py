"""OpenAI's legacy completions (``POST /v1/completions``). Source: OpenAI API reference, "Create completion"."""

from __future__ import annotations

from docket.providers.answer import AnswerObserver, ErrorFold
from docket.providers.base import Observer
from docket.providers.call import Call, Sent
from docket.providers.framing import framing_of
from docket.providers.json_fields import limit, member
from docket.providers.openai_choices import ChoicesFold
from docket.providers.request import read_request

DEFAULT_MAX_TOKENS = 16
"""What a request without ``max_tokens`` gets, by the reference."""


class OpenAICompletions:
    protocol = "openai-completions"

    def call(self, sent: Sent) -> Call:
        asked = read_request(sent)
        include = member(asked.document, "stream_options").get("include_usage")
        prompt = asked.document.get("prompt")
        prompts = len(prompt) if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int) else 1
        answers = max(limit(asked.document, "n") or 1, limit(asked.document, "best_of") or 1)
        return asked.call(
            max_output=limit(asked.document, "max_tokens") or DEFAULT_MAX_TOKENS,
            choices=prompts * answers,
            usage_in_stream=include if isinstance(include, bool) else None,
        )

    def observer(self, call: Call, status: int, media_type: bytes) -> Observer:
        return AnswerObserver(framing_of(media_type), ChoicesFold() if status < 400 else ErrorFold())
