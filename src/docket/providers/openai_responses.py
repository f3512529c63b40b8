"""OpenAI Responses (``POST /v1/responses``, and the messages of its WebSocket).

Source: OpenAI API reference, "Create a model response" and "Streaming events": the usage stands in the response of
``response.completed``, ``response.incomplete`` or ``response.failed``, and one of them always ends the stream.
"""

from __future__ import annotations

from typing import ClassVar

from docket.ledger.usage import Counts
from docket.providers.answer import AnswerObserver, ErrorFold, error_type
from docket.providers.base import Observer
from docket.providers.call import Call, Observation, Sent, Terminal
from docket.providers.framing import framing_of
from docket.providers.json_fields import Document, limit, member, members, text
from docket.providers.openai_usage import Figures, counts, read_usage
from docket.providers.request import read_request

ENDINGS: dict[object, Terminal] = {
    "completed": "complete",
    "incomplete": "incomplete",
    "failed": "error",
    "cancelled": "error",
}
"""Terminal states of a response by its ``status``; ``queued`` and ``in_progress`` are none."""
CLIENT_TOOLS = frozenset({"function", "custom", "local_shell", "shell", "apply_patch", "computer_use_preview"})
"""Tools that the agent itself runs, so that their results come in a body."""
FEES = {"web_search_call": "web_search", "file_search_call": "file_search"}
"""Output items that carry a fee each."""


class OpenAIResponses:
    protocol = "openai-responses"

    def call(self, sent: Sent) -> Call:
        asked = read_request(sent)
        previous = text(asked.document, "previous_response_id")
        return asked.call(
            max_output=limit(asked.document, "max_output_tokens"),
            tier=text(asked.document, "service_tier"),
            stateful=previous is not None,
            open_input=_is_open(asked.document),
            previous=previous,
            background=asked.document.get("background") is True,
        )

    def observer(self, call: Call, *, status: int, media_type: bytes) -> Observer:
        return AnswerObserver(framing_of(media_type), ResponseFold() if status < 400 else ErrorFold())


def _is_open(document: Document) -> bool:
    """Whether input comes from elsewhere: what the provider keeps, what it fetches, what its own tools find."""
    if document.get("conversation") or document.get("prompt"):
        return True
    if any(tool.get("type") not in CLIENT_TOOLS for tool in members(document, "tools")):
        return True
    for item in members(document, "input"):
        if item.get("type") == "item_reference":
            return True
        for part in members(item, "content"):
            image = part.get("image_url")
            if part.get("file_id") or part.get("file_url") or (isinstance(image, str) and image[:5] != "data:"):
                return True
    return False


class ResponseFold:
    """Reads a response object, or the events of its stream."""

    terminators: ClassVar[frozenset[bytes]] = frozenset({b"[DONE]"})

    def __init__(self) -> None:
        self.ended = False
        self._terminal: Terminal | None = None
        self._figures: Figures | None = None
        self._fees: dict[str, int] = {}
        self._model: str | None = None
        self._tier: str | None = None
        self._id: str | None = None
        self._finish: str | None = None
        self._error: str | None = None

    def see(self, name: bytes, document: Document) -> None:
        kind = text(document, "type") or ""
        if kind == "error":
            self._terminal, self.ended = "error", True
            self._error = error_type(document) or text(document, "code")
        elif kind == "response.output_item.done":
            self._fee(member(document, "item"))
        elif kind.startswith("response."):
            response = member(document, "response")
            if response:
                self._response(response)
                self.ended = self.ended or self._terminal is not None
        elif not kind:
            self._response(document)
            for item in members(document, "output"):
                self._fee(item)

    def observe(self, *, clean: bool, streamed: bool, size: int) -> Observation:
        terminal = self._terminal or ("truncated" if streamed or not clean else "unterminated")
        figures = counts(self._figures, final=self._terminal is not None)
        return Observation(
            terminal=terminal,
            counts=self._with_fees(figures),
            model=self._model,
            tier=self._tier,
            finish=self._finish,
            error_type=self._error,
            answer_id=self._id,
            reasoning=self._figures.reasoning if self._figures else None,
            size=size,
        )

    def _response(self, response: Document) -> None:
        self._model = text(response, "model") or self._model
        self._tier = text(response, "service_tier") or self._tier
        self._id = text(response, "id") or self._id
        usage = member(response, "usage")
        if usage:
            self._figures = read_usage(usage)
        status = response.get("status")
        terminal = ENDINGS.get(status) if isinstance(status, str) else None
        if response.get("error") is not None:
            terminal = "error"
            self._error = error_type(response)
        elif response.get("object") == "response.compaction":
            terminal = "complete"
        if terminal is not None:
            self._terminal = terminal
            self._finish = text(member(response, "incomplete_details"), "reason") or text(response, "status")

    def _fee(self, item: Document) -> None:
        kind = FEES.get(str(item.get("type")))
        if kind and member(item, "action").get("type", "search") == "search":
            self._fees[kind] = self._fees.get(kind, 0) + 1

    def _with_fees(self, figures: Counts) -> Counts:
        if figures.source == "none" or not self._fees:
            return figures
        return Counts(
            source=figures.source,
            items=(*figures.items, *sorted(self._fees.items())),
            inconsistent=figures.inconsistent,
        )
