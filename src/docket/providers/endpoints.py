"""Every known endpoint and how it counts: one table, four classes.

A request is matched by its method and the *tail* of its path, so that prefixes of gateways and missing version
segments do not matter, and never by its query. What the table does not know is free if it only reads, else unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from docket.providers.call import Endpoint, EndpointClass

METERED, FREE, UNMETERED = EndpointClass.METERED, EndpointClass.FREE, EndpointClass.UNMETERED
OTHER = "other"
"""Name of what the table does not know."""
FAMILIES = ("openai", "anthropic", "gemini", "ollama")
"""What ``[upstreams.NAME] protocol`` may name."""
_READING = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})
"""Methods that start no generation (except the table's own rows)."""


@dataclass(frozen=True, slots=True)
class Row:
    """``tail`` is the last segments of the path; ``*`` is any one segment, ``*:verb`` one that ends in ``:verb``."""

    method: str
    tail: str
    name: str
    kind: EndpointClass
    family: str
    protocol: str = ""

    def endpoint(self) -> Endpoint:
        return Endpoint(name=self.name, kind=self.kind, protocol=self.protocol or self.family, family=self.family)


def _rows(family: str, kind: EndpointClass, version: str, *tails: str) -> tuple[Row, ...]:
    return tuple(Row("POST", tail, f"/{version}/{tail}", kind, family) for tail in tails)


TABLE: tuple[Row, ...] = (
    Row("POST", "chat/completions", "/v1/chat/completions", METERED, "openai", "openai-chat"),
    Row("POST", "responses", "/v1/responses", METERED, "openai", "openai-responses"),
    Row("POST", "responses/compact", "/v1/responses/compact", METERED, "openai", "openai-responses"),
    Row("POST", "completions", "/v1/completions", METERED, "openai", "openai-completions"),
    Row("POST", "embeddings", "/v1/embeddings", METERED, "openai", "openai-embeddings"),
    *_rows("openai", FREE, "v1", "responses/input_tokens", "responses/*/cancel", "conversations"),
    *_rows("openai", FREE, "v1", "conversations/*/items", "moderations", "batches/*/cancel"),
    *_rows("openai", UNMETERED, "v1", "images/generations", "images/edits", "images/variations"),
    *_rows("openai", UNMETERED, "v1", "audio/speech", "audio/transcriptions", "audio/translations"),
    *_rows("openai", UNMETERED, "v1", "batches", "files", "uploads", "videos", "fine_tuning/jobs", "evals/*/runs"),
    *_rows("openai", UNMETERED, "v1", "threads/*/runs", "threads/runs", "vector_stores", "containers"),
    *_rows("openai", UNMETERED, "v1", "realtime/sessions", "realtime/client_secrets", "realtime/calls"),
    Row("GET", "realtime", "/v1/realtime", UNMETERED, "openai"),
    Row("POST", "messages", "/v1/messages", METERED, "anthropic", "anthropic"),
    Row("POST", "messages/count_tokens", "/v1/messages/count_tokens", FREE, "anthropic"),
    Row("POST", "messages/batches/*/cancel", "/v1/messages/batches/*/cancel", FREE, "anthropic"),
    *_rows("anthropic", UNMETERED, "v1", "messages/batches", "complete", "files"),
    Row("POST", "models/*:generateContent", "/v1beta/models/*:generateContent", METERED, "gemini", "gemini"),
    Row(
        "POST", "models/*:streamGenerateContent", "/v1beta/models/*:streamGenerateContent", METERED, "gemini", "gemini"
    ),
    Row("POST", "models/*:countTokens", "/v1beta/models/*:countTokens", FREE, "gemini"),
    *_rows("gemini", UNMETERED, "v1beta", "models/*:embedContent", "models/*:batchEmbedContents"),
    *_rows("gemini", UNMETERED, "v1beta", "models/*:batchGenerateContent", "models/*:predict"),
    *_rows("gemini", UNMETERED, "v1beta", "models/*:predictLongRunning", "cachedContents", "files"),
    Row("POST", "api/chat", "/api/chat", METERED, "ollama", "ollama"),
    Row("POST", "api/generate", "/api/generate", METERED, "ollama", "ollama"),
    Row("POST", "api/embed", "/api/embed", METERED, "ollama", "ollama"),
    Row("POST", "api/embeddings", "/api/embeddings", UNMETERED, "ollama"),
    *(
        Row("POST", f"api/{verb}", f"/api/{verb}", FREE, "ollama")
        for verb in ("show", "pull", "push", "create", "copy", "delete")
    ),
)
"""Rows of the upstream's own family are tried first, then those of the others (gateways speak several)."""


_CANDIDATES: dict[str, list[tuple[Row, list[str]]]] = {
    family: [
        (row, row.tail.split("/"))
        for own in (True, False)
        for row in TABLE
        if (row.family == family) is own and (own or row.kind is METERED)
    ]
    for family in FAMILIES
}


def find(family: str, method: str, path: str) -> Endpoint:
    """The endpoint that ``method`` and ``path`` (as sent; a query is ignored) name at an upstream of ``family``."""
    segments = path_segments(path)
    for row, tail in _CANDIDATES[family]:
        if row.method == method and _ends_with(segments, tail, own=row.family == family):
            return row.endpoint()
    kind = FREE if method in _READING else EndpointClass.UNKNOWN
    return Endpoint(name=OTHER, kind=kind, protocol=family, family=family)


def path_segments(path: str) -> list[str]:
    """The segments of ``path``, percent-decoded; empty ones and ``.`` mean nothing, and so does the query."""
    return [s for s in map(unquote, path.partition("?")[0].split("/")) if s not in ("", ".")]


def _ends_with(segments: list[str], tail: list[str], *, own: bool) -> bool:
    """Whether the path ends so. At another family's upstream a version segment must stand before the tail."""
    if len(segments) < len(tail) or not all(map(_fits, segments[-len(tail) :], tail)):
        return False
    before = segments[: -len(tail)]
    return own or tail[0] == "api" or (bool(before) and before[-1][:1] == "v" and before[-1][1:2].isdigit())


def _fits(segment: str, pattern: str) -> bool:
    if pattern == "*":
        return True
    if pattern.startswith("*:"):
        return segment.endswith(pattern[1:]) and len(segment) > len(pattern) - 1
    return segment == pattern
