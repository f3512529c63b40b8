"""Anthropic Messages (``POST /v1/messages``).

Source: Anthropic API reference, "Messages" and "Streaming messages" (every counter of ``message_delta.usage`` is
cumulative), "Prompt caching" (``input_tokens`` leaves cache reads and writes out), "Compaction" (``iterations``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from docket.ledger.usage import Counts, Part, Quantities
from docket.primitives.frozen import value
from docket.providers.answer import NOTHING, AnswerObserver, ErrorFold, ending, error_type
from docket.providers.base import Observer
from docket.providers.call import Call, Observation, Sent
from docket.providers.framing import framing_of
from docket.providers.json_fields import Document, Malformed, counter, limit, member, members, text
from docket.providers.request import read_request
from docket.providers.usage_members import leaves, rising, says_nothing, unread

_ROW = leaves(
    "type model input_tokens output_tokens cache_creation_input_tokens cache_read_input_tokens service_tier speed"
    " inference_geo",
    cache_creation=leaves("ephemeral_5m_input_tokens ephemeral_1h_input_tokens"),
    output_tokens_details=leaves("thinking_tokens"),
    server_tool_use=leaves("web_search_requests web_fetch_requests"),
)
_SCHEMA = {**_ROW, "iterations": _ROW}
"""Members of ``usage``; fetches of the provider's own tool cost their tokens alone."""
LIMITS = frozenset({"max_tokens", "model_context_window_exceeded"})
"""Stop reasons that mean an answer cut short."""
SERVER_TOOLS = ("web_search_", "web_fetch_", "code_execution_", "tool_search_", "mcp_", "advisor_")
"""How the types of tools begin that the provider runs."""


class Anthropic:
    protocol = "anthropic"

    def call(self, sent: Sent) -> Call:
        asked = read_request(sent)
        return asked.call(
            max_output=limit(asked.document, "max_tokens"),
            open_input=_is_open(asked.document),
            tier="fast" if asked.document.get("speed") == "fast" else None,
        )

    def observer(self, call: Call, status: int, media_type: bytes) -> Observer:
        return AnswerObserver(framing_of(media_type), MessageFold() if status < 400 else ErrorFold())


def _is_open(document: Document) -> bool:
    """Whether input comes from elsewhere: images and documents by address, containers, tools that the provider runs.

    The provider's own tools have a dated ``type`` and no ``input_schema``; some of them (``bash_...``) only the agent
    can run, and their results come in a body.
    """
    if document.get("container") or document.get("mcp_servers"):
        return True
    edits = members(member(document, "context_management"), "edits")
    if any(str(edit.get("type", "")).startswith("compact") for edit in edits):  # an attempt of its own, billed beside
        return True
    if any(str(tool.get("type", "")).startswith(SERVER_TOOLS) for tool in members(document, "tools")):
        return True
    for message in members(document, "messages"):
        for block in members(message, "content"):
            if member(block, "source").get("type") in ("url", "file"):
                return True
    return False


class MessageFold:
    """Reads a message, or the events of its stream; usage figures only grow."""

    terminators: ClassVar[frozenset[bytes]] = frozenset()

    def __init__(self) -> None:
        self.ended = False
        self._seen = self._started = False
        self._usage: Document = {}
        self._fell = False
        self._content = False
        self._final = False
        self._model: str | None = None
        self._id: str | None = None
        self._stop: str | None = None
        self._error: str | None = None
        self._failed = False

    def see(self, name: bytes, document: Document) -> None:
        self._seen = True
        match document.get("type"):
            case "content_block_delta":
                self._content = True
            case "message_start":
                self._fell = self._fell or self._started  # of two messages one may be billed, or both
                self._started = True
                self._message(member(document, "message"))
            case "message_delta":
                self._stop = text(member(document, "delta"), "stop_reason") or self._stop
                self._merge(member(document, "usage"))
                self._final = True
            case "message_stop":
                self.ended = True
            case "error":
                self._failed = self.ended = True
                self._error = error_type(document)
            case "message":
                self._message(document)
                self._final = True

    def observe(self, *, clean: bool, streamed: bool, size: int) -> Observation:
        whole = clean and not streamed and self._seen
        terminal = ending(error=self._failed, done=self.ended or whole, finish=self._stop, limits=LIMITS, clean=clean)
        final = self._final and terminal in ("complete", "incomplete")
        attempts = members(self._usage, "iterations")
        return Observation(
            terminal=terminal,
            counts=read_usage(
                self._usage,
                final=final,
                refused=self._stop == "refusal" and not self._content,
                fell=self._fell,
                content=self._content,
            ),
            model=(text(attempts[-1], "model") if attempts else None) or self._model,
            tier=_tier(self._usage),
            finish=self._stop,
            error_type=self._error,
            answer_id=self._id,
            reasoning=_reasoning(self._usage),
            size=size,
        )

    def _message(self, message: Document) -> None:
        self._model = text(message, "model") or self._model
        self._id = text(message, "id") or self._id
        self._stop = text(message, "stop_reason") or self._stop
        self._content = self._content or bool(message.get("content"))
        self._merge(member(message, "usage"))

    def _merge(self, usage: Document) -> None:
        self._usage, fell = rising(self._usage, usage)
        self._fell = self._fell or fell


def read_usage(
    usage: Document, *, final: bool, refused: bool = False, fell: bool = False, content: bool = False
) -> Counts:
    """A ``usage`` object as kinds that do not overlap. With ``iterations`` each attempt is billed, at its own model.

    ``refused`` says that the answer is a refusal without content, which is not billed; ``fell`` that a total had
    fallen; ``content`` that the answer held some.
    """
    if not usage:
        return NOTHING
    unknown = unread(usage, _SCHEMA)
    attempts = members(usage, "iterations")
    try:
        rows = [_Row(text(each, "model"), *_tokens(each)) for each in attempts or [usage]]
        searches = counter(member(usage, "server_tool_use"), "web_search_requests")
    except Malformed:
        return Counts(source="none", inconsistent=True, unread=unknown)
    known = [row for row in rows if row.items]
    if not known:
        return Counts(source="none", unread=unknown)
    fell = fell and not attempts  # of several attempts the top level repeats the last one alone
    billed = [row for at, row in enumerate(known) if not _declined(known, at, refused=refused)]
    items: dict[str, int] = {"input": 0, "output": 0} if not billed else {}
    for row in billed:
        for kind, quantity in row.items:
            items[kind] = items.get(kind, 0) + quantity
    final = final and {"input", "output"} <= items.keys()
    silent = content and not refused and says_nothing(tuple(items.items()))
    fees = (("web_search", searches),) if searches else ()
    parts = tuple(Part(row.model, _worth(dict(row.items))) for row in billed) if attempts else ()
    return Counts(
        source="reported" if final and not (unknown or fell or silent) else "partial",
        items=_worth(items) + fees,
        inconsistent=fell or any(row.inconsistent for row in known),
        unread=unknown,
        parts=(*parts, Part(None, fees)) if parts and fees else parts,
    )


def _worth(items: Mapping[str, int]) -> Quantities:
    """Items without zeros, except for input and output."""
    return tuple((kind, quantity) for kind, quantity in items.items() if quantity or kind in ("input", "output"))


@value
class _Row:
    """One attempt: the model that served it where that is said, and its tokens; no items say nothing."""

    model: str | None
    items: Quantities
    inconsistent: bool


def _declined(rows: list[_Row], at: int, *, refused: bool) -> bool:
    """Whether an attempt ended before any output, for another model or in a refusal: that costs nothing."""
    row = rows[at]
    if dict(row.items).get("output") != 0:
        return False
    return refused if at == len(rows) - 1 else row.model is not None and rows[at + 1].model != row.model


def _tokens(usage: Document) -> tuple[Quantities, bool]:
    """The token kinds of one usage object and whether they contradict each other; none where it says nothing."""
    plain = counter(usage, "input_tokens")
    output = counter(usage, "output_tokens")
    written = counter(usage, "cache_creation_input_tokens")
    read = counter(usage, "cache_read_input_tokens")
    split = member(usage, "cache_creation")
    short = counter(split, "ephemeral_5m_input_tokens")
    long = counter(split, "ephemeral_1h_input_tokens")
    if plain is None and output is None:
        return (), False
    total = written if written is not None else (short or 0) + (long or 0)
    hour = min(long or 0, total)
    inconsistent = (short is not None or long is not None) and (short or 0) + (long or 0) != total
    items = (
        ("input", plain),
        ("cache_read", read),
        ("cache_write_5m", total - hour),
        ("cache_write_1h", hour),
        ("output", output),
    )
    return tuple((kind, quantity) for kind, quantity in items if quantity is not None), inconsistent


def _tier(usage: Document) -> str | None:
    """Fast mode, priority and inference kept in one place are prices of their own; the usage says what was served."""
    speed, place = text(usage, "speed"), text(usage, "inference_geo")
    tier = speed if speed not in (None, "standard") else text(usage, "service_tier")
    return f"{tier or 'standard'}-{place}" if place not in (None, "global", "not_available") else tier


def _reasoning(usage: Document) -> int | None:
    return limit(member(usage, "output_tokens_details"), "thinking_tokens")
