"""Ollama (``POST /api/chat``, ``/api/generate``, ``/api/embed``): one JSON document a line unless ``stream`` is false.

Source: Ollama API reference: ``prompt_eval_count`` and ``eval_count`` stand in the last document, with ``done``; the
prompt's count is left out where the prompt was cached.
"""

from __future__ import annotations

from typing import ClassVar

from docket.ledger.usage import Counts
from docket.providers.answer import AnswerObserver, ErrorFold, ending
from docket.providers.base import Observer
from docket.providers.call import Call, Observation, Sent
from docket.providers.framing import Lines, framing_of
from docket.providers.json_fields import Document, Malformed, counter, limit, member, text
from docket.providers.request import read_request
from docket.providers.usage_members import leaves, says_nothing, unread

_SCHEMA = leaves("prompt_eval_count eval_count")
"""Members of the last document that end in ``_count``."""


class Ollama:
    protocol = "ollama"

    def call(self, sent: Sent) -> Call:
        asked = read_request(sent)
        embeds = sent.endpoint.name == "/api/embed"
        return asked.call(
            stream=not embeds and asked.document.get("stream") is not False,
            max_output=0 if embeds else limit(member(asked.document, "options"), "num_predict"),
        )

    def observer(self, call: Call, status: int, media_type: bytes) -> Observer:
        if status >= 400:
            return AnswerObserver(framing_of(media_type), ErrorFold())
        embeds = call.endpoint.name == "/api/embed"
        framing = framing_of(media_type, Lines()) if call.stream else framing_of(media_type)
        return AnswerObserver(framing, GenerationFold(embeds=embeds))


class GenerationFold:
    """Reads the documents of one generation."""

    terminators: ClassVar[frozenset[bytes]] = frozenset()

    def __init__(self, *, embeds: bool) -> None:
        self.ended = False
        self._embeds = embeds
        self._last: Document = {}
        self._content = False
        self._model: str | None = None
        self._finish: str | None = None
        self._failed = False

    def see(self, name: bytes, document: Document) -> None:
        self._model = text(document, "model") or self._model
        said = document.get("response") or member(document, "message").get("content") or document.get("embeddings")
        self._content = self._content or bool(said)
        if document.get("error") is not None:
            self._failed = self.ended = True
        elif document.get("done") is True or (self._embeds and "embeddings" in document):
            self._last = document
            self._finish = text(document, "done_reason")
            self.ended = True

    def observe(self, *, clean: bool, streamed: bool, size: int) -> Observation:
        terminal = ending(
            error=self._failed, done=self.ended, finish=self._finish, limits=frozenset({"length"}), clean=clean
        )
        return Observation(
            terminal=terminal,
            counts=_counts(self._last, needs_output=not self._embeds, content=self._content),
            model=self._model,
            finish=self._finish,
            size=size,
        )


def _counts(last: Document, *, needs_output: bool, content: bool) -> Counts:
    unknown = unread({name: figure for name, figure in last.items() if name.endswith("_count")}, _SCHEMA)
    try:
        prompt, output = counter(last, "prompt_eval_count"), counter(last, "eval_count")
    except Malformed:
        return Counts(source="none", inconsistent=True, unread=unknown)
    if prompt is None and output is None:
        return Counts(source="none", unread=unknown)
    items = tuple(
        (kind, quantity) for kind, quantity in (("input", prompt), ("output", output)) if quantity is not None
    )
    whole = prompt is not None and (output is not None or not needs_output)
    whole = whole and not unknown and not (content and says_nothing(items))
    return Counts(source="reported" if whole else "partial", items=items, unread=unknown)
