"""OpenAI Responses (``POST /v1/responses``, and the messages of its WebSocket).

Source: OpenAI API reference, "Create a model response" and "Streaming events": the usage stands in the response of
``response.completed``, ``response.incomplete`` or ``response.failed``, and one of them always ends the stream.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from docket.ledger.usage import Counts
from docket.primitives.frozen import value
from docket.providers.answer import AnswerObserver, ErrorFold, error_type
from docket.providers.base import Observer
from docket.providers.call import Call, Observation, Sent, Terminal
from docket.providers.framing import framing_of
from docket.providers.json_fields import Document, limit, member, members, text
from docket.providers.openai_usage import RunningUsage
from docket.providers.request import read_request
from docket.providers.usage_members import MAX_NAMED, rising, unread

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
METERS = {"web_search": "web_search", "file_search": "file_search"}
"""Tools of ``tool_usage`` that are billed by ``num_requests``, and the fee that each is."""
UNPRICED = frozenset({"code_interpreter_call", "image_generation_call"})
"""Output items that are billed by a figure that the answer need not hold."""


MAX_ITEMS = 4096
"""Output items of one answer that are told apart; of a longer answer not all fees are known."""


@value
class _Output:
    """What of an output item may cost something."""

    kind: str
    searches: bool
    failed: bool


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

    def observer(self, call: Call, status: int, media_type: bytes) -> Observer:
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
        self._usage = RunningUsage()
        self._items: dict[str, _Output] = {}
        """Output items by id, or by place where they have none."""
        self._tools: Document = {}
        self._model: str | None = None
        self._tier: str | None = None
        self._id: str | None = None
        self._finish: str | None = None
        self._error: str | None = None

    def see(self, name: bytes, document: Document) -> None:
        kind = text(document, "type") or ""
        if not self._usage.content:
            self._usage.content = kind.endswith(".delta")
        if kind == "error":
            self._terminal, self.ended = "error", True
            self._error = error_type(document) or text(document, "code")
        elif kind == "response.output_item.done":
            self._item(member(document, "item"), document.get("output_index"))
        elif kind.startswith("response."):
            response = member(document, "response")
            if response:
                self._response(response)
                self.ended = self.ended or self._terminal is not None
        elif not kind:
            self._response(document)

    def observe(self, *, clean: bool, streamed: bool, size: int) -> Observation:
        terminal = self._terminal or ("truncated" if streamed or not clean else "unterminated")
        self._usage.content = self._usage.content or bool(self._items)
        return Observation(
            terminal=terminal,
            counts=self._with_tools(self._usage.counts(final=self._terminal is not None)),
            model=self._model,
            tier=self._tier,
            finish=self._finish,
            error_type=self._error,
            answer_id=self._id,
            reasoning=self._usage.reasoning,
            size=size,
        )

    def _response(self, response: Document) -> None:
        self._model = text(response, "model") or self._model
        self._tier = text(response, "service_tier") or self._tier
        self._id = text(response, "id") or self._id
        self._usage.take(member(response, "usage"))
        self._tools, _ = rising(self._tools, member(response, "tool_usage"))
        for place, item in enumerate(members(response, "output")):
            self._item(item, place)
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

    def _item(self, item: Document, place: object) -> None:
        """Take an output item; it stands in its own event and in the whole response, and counts once."""
        if item and len(self._items) < MAX_ITEMS:
            searches = member(item, "action").get("type", "search") == "search"
            name = text(item, "id") or f"#{place}"
            self._items[name] = _Output(str(item.get("type")), searches, item.get("status") == "failed")

    def _fees(self) -> tuple[dict[str, int], tuple[str, ...]]:
        """The fees of the answer by kind, and what had to be assumed: the provider's own counters, else its items.

        An opened page is no search. That a failed search costs nothing is not documented, so it counts.
        """
        fees: dict[str, int] = {}
        assumed: dict[str, None] = {}
        for tool, kind in METERS.items():
            requests = limit(member(self._tools, tool), "num_requests")
            if requests is not None:
                fees[kind] = requests
        counted = frozenset(fees)
        for item in self._items.values():
            kind = FEES.get(item.kind, "")
            if kind and kind not in counted and item.searches:
                fees[kind] = fees.get(kind, 0) + 1
                if item.failed:
                    assumed[f"{item.kind}.status"] = None
        return {kind: quantity for kind, quantity in fees.items() if quantity}, tuple(assumed)

    def _unread(self) -> tuple[str, ...]:
        """What is billed beside ``usage`` and has no price here."""
        known = {tool: {"num_requests": None} for tool in METERS}
        named = unread(self._tools, known, "tool_usage")
        metered = {name.split(".")[1] for name in named}
        for item in self._items.values():
            if item.kind in UNPRICED and not any(item.kind.startswith(tool[:9]) for tool in metered):
                named += (f"output.{item.kind}",)
        if len(self._items) >= MAX_ITEMS:
            named += ("output",)
        return tuple(dict.fromkeys(named))[:MAX_NAMED]

    def _with_tools(self, counts: Counts) -> Counts:
        """``counts`` with the fees of tools; what a second meter says and has no price makes them no final word."""
        (fees, assumed), beside = self._fees(), self._unread()
        named = tuple(dict.fromkeys((*counts.unread, *beside)))[:MAX_NAMED]
        if counts.source == "none":
            return replace(counts, unread=named)
        return replace(
            counts,
            source="partial" if named else counts.source,
            items=(*counts.items, *sorted(fees.items())),
            unread=named,
            assumed=(*counts.assumed, *assumed),
        )
