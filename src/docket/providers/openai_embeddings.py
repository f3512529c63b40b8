"""OpenAI embeddings (``POST /v1/embeddings``): input is all there is. Source: OpenAI API reference, "Embeddings"."""

from __future__ import annotations

from typing import ClassVar

from docket.providers.answer import AnswerObserver, ErrorFold, ending, error_type
from docket.providers.base import Observer
from docket.providers.call import Call, Observation, Sent
from docket.providers.framing import framing_of
from docket.providers.json_fields import Document, member, text
from docket.providers.openai_usage import RunningUsage
from docket.providers.request import read_request


class OpenAIEmbeddings:
    protocol = "openai-embeddings"

    def call(self, sent: Sent) -> Call:
        return read_request(sent).call(stream=False, max_output=0)

    def observer(self, call: Call, status: int, media_type: bytes) -> Observer:
        return AnswerObserver(framing_of(media_type), EmbeddingsFold() if status < 400 else ErrorFold())


class EmbeddingsFold:
    """Reads one list of embeddings."""

    terminators: ClassVar[frozenset[bytes]] = frozenset()

    def __init__(self) -> None:
        self.ended = False
        self._seen = False
        self._usage = RunningUsage()
        self._model: str | None = None
        self._error: str | None = None
        self._failed = False

    def see(self, name: bytes, document: Document) -> None:
        self._seen = True
        self._failed = document.get("error") is not None
        self._error = error_type(document)
        self._model = text(document, "model")
        self._usage.content = bool(document.get("data"))
        self._usage.take(member(document, "usage"))

    def observe(self, *, clean: bool, streamed: bool, size: int) -> Observation:
        terminal = ending(error=self._failed, done=clean and self._seen, finish=None, limits=frozenset(), clean=clean)
        return Observation(
            terminal=terminal,
            counts=self._usage.counts(final=terminal == "complete"),
            model=self._model,
            error_type=self._error,
            size=size,
        )
