"""The answers of OpenAI's protocols that hold ``choices``: chat completions and legacy completions, whole or in chunks.

Source: OpenAI API reference, "Chat completion chunk" and "Completion object"; deviations of other servers as reported.
"""

from __future__ import annotations

from typing import ClassVar

from docket.providers.answer import ending, error_type
from docket.providers.call import Observation
from docket.providers.json_fields import Document, member, members, text
from docket.providers.openai_usage import RunningUsage

LIMITS = frozenset({"length", "content_filter"})
"""Reasons to finish that mean an answer cut short."""


class ChoicesFold:
    """Reads a completion, or its chunks: usage figures only grow, and a chunk without one wipes nothing."""

    terminators: ClassVar[frozenset[bytes]] = frozenset({b"[DONE]"})

    def __init__(self) -> None:
        self.ended = False
        self._seen = False
        self._usage = RunningUsage()
        self._model: str | None = None
        self._tier: str | None = None
        self._id: str | None = None
        self._finish: str | None = None
        self._error: str | None = None
        self._failed = False

    def see(self, name: bytes, document: Document) -> None:
        self._seen = True
        if document.get("error") is not None:
            self._failed = True
            self._error = self._error or error_type(document)
        self._model = text(document, "model") or self._model
        self._tier = text(document, "service_tier") or self._tier
        self._id = text(document, "id") or self._id
        usage = member(document, "usage") or member(member(document, "x_groq"), "usage")
        for choice in members(document, "choices"):
            self._finish = text(choice, "finish_reason") or self._finish
            usage = usage or member(choice, "usage")
            if not self._usage.content:
                self._usage.content = _has_content(choice)
        self._usage.take(usage)

    def observe(self, *, clean: bool, streamed: bool, size: int) -> Observation:
        terminal = ending(
            error=self._failed,
            done=self.ended or (clean and not streamed and self._seen),
            finish=self._finish,
            limits=LIMITS,
            clean=clean,
        )
        return Observation(
            terminal,
            self._usage.counts(final=terminal in ("complete", "incomplete")),
            self._model,
            self._tier,
            self._finish,
            self._error,
            self._id,
            None,
            size,
            self._usage.reasoning,
        )


def _has_content(choice: Document) -> bool:
    """Whether a choice holds any text or call, whole or in part."""
    if choice.get("text"):
        return True
    said = member(choice, "delta") or member(choice, "message")
    return any(value for name, value in said.items() if name != "role")
