"""OpenAI Chat Completions (``POST /v1/chat/completions``) and the many servers that speak it.

Source: OpenAI API reference, "Create chat completion" and "Chat completion chunk"; deviations as reported.
"""

from __future__ import annotations

from docket.providers.answer import AnswerObserver, ErrorFold
from docket.providers.base import Observer
from docket.providers.call import Call, Sent
from docket.providers.framing import framing_of
from docket.providers.json_fields import Document, limit, member, members, text
from docket.providers.openai_choices import ChoicesFold
from docket.providers.request import read_request


class OpenAIChat:
    protocol = "openai-chat"

    def call(self, sent: Sent) -> Call:
        asked = read_request(sent)
        options = member(asked.document, "stream_options")
        include = options.get("include_usage")
        return asked.call(
            max_output=limit(asked.document, "max_completion_tokens", "max_tokens"),
            choices=limit(asked.document, "n") or 1,
            open_input=_is_open(asked.document),
            tier=text(asked.document, "service_tier"),
            usage_in_stream=include if isinstance(include, bool) else None,
        )

    def observer(self, call: Call, *, status: int, media_type: bytes) -> Observer:
        return AnswerObserver(framing_of(media_type), ChoicesFold() if status < 400 else ErrorFold())


def _is_open(document: Document) -> bool:
    """Whether input comes from elsewhere: an image or file by its address, a search that the provider runs."""
    if document.get("web_search_options") is not None:
        return True
    for message in members(document, "messages"):
        for part in members(message, "content"):
            if "image_url" not in part and "file" not in part:  # as nearly every part of a long conversation
                continue
            address = text(member(part, "image_url"), "url")
            if (address and not address.startswith("data:")) or text(member(part, "file"), "file_id"):
                return True
    return False
