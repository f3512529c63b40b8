"""The answers of OpenAI's protocols that hold ``choices``: chat completions and legacy completions, whole or in chunks.

Source: OpenAI API reference, "Chat completion chunk" and "Completion object"; deviations of other servers as reported.
"""

from __future__ import annotations

from typing import ClassVar

from docket.providers.answer import ending, error_type
from docket.providers.call import Observation
from docket.providers.json_fields import Document, member
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
        self._seen, get = True, document.get
        if get("error") is not None:
            self._failed = True
            self._error = self._error or error_type(document)
        if (model := get("model")) and isinstance(model, str):
            self._model = model
        if (tier := get("service_tier")) and isinstance(tier, str):
            self._tier = tier
        if (own := get("id")) and isinstance(own, str):
            self._id = own
        usage, choices = get("usage"), get("choices")
        if "x_groq" in document and not (usage and isinstance(usage, dict)):
            usage = member(member(document, "x_groq"), "usage")
        for choice in choices if isinstance(choices, list) else ():
            if not isinstance(choice, dict):
                continue
            if (finish := choice.get("finish_reason")) and isinstance(finish, str):
                self._finish = finish
            if not (usage and isinstance(usage, dict)):
                usage = choice.get("usage")
            if not self._usage.content:
                self._usage.content = _has_content(choice)
        if usage and isinstance(usage, dict):
            self._usage.take(usage)

    def observe(self, *, clean: bool, streamed: bool, size: int) -> Observation:
        done, finish = self.ended or (clean and not streamed and self._seen), self._finish
        terminal = ending(error=self._failed, done=done, finish=finish, limits=LIMITS, clean=clean)
        counts = self._usage.counts(final=terminal in ("complete", "incomplete"))
        figures = self._usage.figures
        return Observation(
            terminal,
            counts,
            self._model,
            self._tier,
            finish,
            self._error,
            self._id,
            None,
            size,
            None if figures is None else figures.reasoning,
        )


def _has_content(choice: Document) -> bool:
    """Whether a choice holds any text or call, whole or in part."""
    if choice.get("text"):
        return True
    said = choice.get("delta")
    if not (said and isinstance(said, dict)):
        said = choice.get("message")
    if isinstance(said, dict):
        for name, value in said.items():
            if value and name != "role":
                return True
    return False
