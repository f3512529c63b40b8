"""OpenAI Chat Completions (``POST /v1/chat/completions``) and the many servers that speak it.

Source: OpenAI API reference, "Create chat completion" and "Chat completion chunk"; deviations as reported.
"""

from __future__ import annotations

from docket.providers.answer import AnswerObserver, ErrorFold
from docket.providers.base import Observer
from docket.providers.call import Call, Sent
from docket.providers.framing import framing_of
from docket.providers.json_fields import Document, limit, member, text
from docket.providers.openai_choices import ChoicesFold
from docket.providers.request import read_request


class OpenAIChat:
    protocol = "openai-chat"

    def call(self, sent: Sent) -> Call:
        asked = read_request(sent)
        document = asked.document
        options = document.get("stream_options")
        include = options.get("include_usage") if isinstance(options, dict) else None
        return asked.call(
            max_output=limit(document, "max_completion_tokens", "max_tokens"),
            choices=(limit(document, "n") or 1) if "n" in document else 1,
            open_input=_is_open(document),
            tier=text(document, "service_tier") if "service_tier" in document else None,
            usage_in_stream=include if isinstance(include, bool) else None,
        )

    def observer(self, call: Call, status: int, media_type: bytes) -> Observer:
        return AnswerObserver(framing_of(media_type), ChoicesFold() if status < 400 else ErrorFold())


def _is_open(document: Document) -> bool:
    """Whether input comes from elsewhere: an image or file by its address, a search that the provider runs."""
    if document.get("web_search_options") is not None:
        return True
    messages = document.get("messages")
    for message in messages if isinstance(messages, list) else ():
        content = message.get("content") if isinstance(message, dict) else None
        if not isinstance(content, list):  # nearly always a text
            continue
        for part in content:
            if not isinstance(part, dict):
                continue
            if "image_url" not in part and "file" not in part:  # as nearly every part of a long conversation
                continue
            address = text(member(part, "image_url"), "url")
            if (address and not address.startswith("data:")) or text(member(part, "file"), "file_id"):
                return True
    return False
