"""Anthropic Messages (``POST /v1/messages``).

Source: Anthropic API reference, "Messages" and "Streaming messages" (every counter of ``message_delta.usage`` is
cumulative), "Prompt caching" (``input_tokens`` leaves cache reads and writes out), "Compaction" (``iterations``).
"""

from __future__ import annotations

from typing import ClassVar

from docket.ledger.usage import Counts
from docket.providers.answer import NOTHING, AnswerObserver, ErrorFold, ending, error_type
from docket.providers.base import Observer
from docket.providers.call import Call, Observation, Sent
from docket.providers.framing import framing_of
from docket.providers.json_fields import Document, Malformed, counter, limit, member, members, text
from docket.providers.request import read_request

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

    def observer(self, call: Call, *, status: int, media_type: bytes) -> Observer:
        return AnswerObserver(framing_of(media_type), MessageFold() if status < 400 else ErrorFold())


def _is_open(document: Document) -> bool:
    """Whether input comes from elsewhere: images and documents by address, containers, tools that the provider runs.

    The provider's own tools have a dated ``type`` and no ``input_schema``; some of them (``bash_...``) only the agent
    can run, and their results come in a body.
    """
    if document.get("container") or document.get("mcp_servers"):
        return True
    if any(str(tool.get("type", "")).startswith(SERVER_TOOLS) for tool in members(document, "tools")):
        return True
    for message in members(document, "messages"):
        for block in members(message, "content"):
            if member(block, "source").get("type") in ("url", "file"):
                return True
    return False


class MessageFold:
    """Reads a message, or the events of its stream; per counter the last figure wins."""

    terminators: ClassVar[frozenset[bytes]] = frozenset()

    def __init__(self) -> None:
        self.ended = False
        self._seen = False
        self._usage: dict[str, object] = {}
        self._final = False
        self._model: str | None = None
        self._id: str | None = None
        self._stop: str | None = None
        self._error: str | None = None
        self._failed = False

    def see(self, name: bytes, document: Document) -> None:
        self._seen = True
        match document.get("type"):
            case "message_start":
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
        return Observation(
            terminal=terminal,
            counts=read_usage(self._usage, final=final),
            model=self._model,
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
        self._merge(member(message, "usage"))

    def _merge(self, usage: Document) -> None:
        self._usage.update((name, value) for name, value in usage.items() if value is not None)


def read_usage(usage: Document, *, final: bool) -> Counts:
    """A ``usage`` object as kinds that do not overlap. With ``iterations`` their sum is the bill."""
    if not usage:
        return NOTHING
    try:
        parts = [_tokens(part) for part in members(usage, "iterations")] or [_tokens(usage)]
        searches = counter(member(usage, "server_tool_use"), "web_search_requests")
    except Malformed:
        return Counts(source="none", inconsistent=True)
    known = [part for part in parts if part is not None]
    if not known:
        return NOTHING
    sums: dict[str, int] = {}
    for items, _ in known:
        for kind, quantity in items:
            sums[kind] = sums.get(kind, 0) + quantity
    final = final and {"input", "output"} <= sums.keys()
    if searches:
        sums["web_search"] = searches
    items = tuple((kind, quantity) for kind, quantity in sums.items() if quantity or kind in ("input", "output"))
    return Counts(source="reported" if final else "partial", items=items, inconsistent=any(bad for _, bad in known))


def _tokens(usage: Document) -> tuple[tuple[tuple[str, int], ...], bool] | None:
    """The token kinds of one usage object and whether they contradict each other; None where it says nothing."""
    plain = counter(usage, "input_tokens")
    output = counter(usage, "output_tokens")
    written = counter(usage, "cache_creation_input_tokens")
    read = counter(usage, "cache_read_input_tokens")
    split = member(usage, "cache_creation")
    short = counter(split, "ephemeral_5m_input_tokens")
    long = counter(split, "ephemeral_1h_input_tokens")
    if plain is None and output is None:
        return None
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
    """Fast mode, priority and inference kept in one country are prices of their own; the usage says what was served."""
    tier = "fast" if usage.get("speed") == "fast" else text(usage, "service_tier")
    return f"{tier or 'standard'}-us" if usage.get("inference_geo") == "us" else tier


def _reasoning(usage: Document) -> int | None:
    return limit(member(usage, "output_tokens_details"), "thinking_tokens")
