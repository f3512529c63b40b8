"""Every known endpoint and how it counts: one table, four classes.

A request is matched by its method and the *tail* of its path, so that prefixes of gateways and missing version
segments do not matter, and never by its query. What the table does not know is free if it only reads, else unknown.
Invariant: what may be billed by any reading of the path, in any case, counts as billed; what is free is so only in its
one plain spelling.
"""

from __future__ import annotations

from dataclasses import dataclass

from docket.families import BY_NAME, Family
from docket.providers.call import Endpoint, EndpointClass
from docket.providers.targets import readings

METERED, FREE, UNMETERED = EndpointClass.METERED, EndpointClass.FREE, EndpointClass.UNMETERED
OTHER = "other"
"""Name of what the table does not know."""
FAMILIES = tuple(BY_NAME)
"""What ``[upstreams.NAME] protocol`` may name."""
_READING = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})
"""Methods that start no generation (except the table's own rows)."""
_UNVERSIONED = frozenset({"api", "model", "anthropic", "publishers"})
"""First segments of tails before which no version stands."""
_COMPATIBLE = frozenset({"openai", "openapi"})
"""Segments before OpenAI's paths at Google AI and Vertex AI."""
_LISTS = (["chat", "completions"], ["organization", "usage", "*"])
"""Ends of paths whose GET takes ``model`` as a filter (OpenAI API reference: list chat completions, usage)."""


@dataclass(frozen=True, slots=True)
class Row:
    """``tail`` is the last segments of the path; ``*`` is any one segment, ``*:verb`` one that ends in ``:verb``.

    Every method that does not only read counts as the POST of a billed row: servers differ in what they let through.
    """

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
    *_rows("azure", FREE, "v1", "responses/input_tokens", "responses/*/cancel"),
    Row("GET", "realtime", "/v1/realtime", UNMETERED, "openai"),
    Row("POST", "messages", "/v1/messages", METERED, "anthropic", "anthropic"),
    Row("POST", "messages/count_tokens", "/v1/messages/count_tokens", FREE, "anthropic"),
    Row("POST", "messages/batches/*/cancel", "/v1/messages/batches/*/cancel", FREE, "anthropic"),
    *_rows("anthropic", UNMETERED, "v1", "messages/batches", "complete", "files"),
    Row("POST", "anthropic/models/count-tokens:rawPredict", "/v1/models/count-tokens:rawPredict", FREE, "anthropic"),
    *(
        Row("POST", f"anthropic/models/*:{verb}", f"/v1/models/*:{verb}", METERED, "anthropic", "anthropic")
        for verb in ("rawPredict", "streamRawPredict")
    ),
    *_rows("anthropic", UNMETERED, "v1", "models/*:rawPredict", "models/*:streamRawPredict"),
    Row("POST", "model/*/invoke", "/model/*/invoke", METERED, "anthropic", "anthropic"),
    *(
        Row("POST", f"model/*/{verb}", f"/model/*/{verb}", UNMETERED, "anthropic")
        for verb in ("invoke-with-response-stream", "converse", "converse-stream")
    ),
    Row("POST", "models/*:generateContent", "/v1beta/models/*:generateContent", METERED, "gemini", "gemini"),
    Row(
        "POST", "models/*:streamGenerateContent", "/v1beta/models/*:streamGenerateContent", METERED, "gemini", "gemini"
    ),
    *(
        Row("POST", f"{kind}/*:{verb}", f"/v1beta/{kind}/*:{verb}", METERED, "gemini", "gemini")
        for kind in ("endpoints", "tunedModels")
        for verb in ("generateContent", "streamGenerateContent")
    ),
    *_rows("vertex", FREE, "v1", "anthropic/models/count-tokens:rawPredict", "models/*:countTokens"),
    *_rows("gemini", UNMETERED, "v1beta", "models/*:rawPredict", "models/*:streamRawPredict"),
    *_rows("gemini", UNMETERED, "v1beta", "endpoints/*:predict", "endpoints/*:rawPredict"),
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
        for verb in ("show", "pull", "push", "create", "copy", "delete", "blobs/*")
    ),
)
"""Rows of the upstream's own family are tried first, then those of the others (gateways speak several)."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A row that may apply at an upstream; ``own`` says that it needs no version segment before its tail there."""

    row: Row
    tail: list[str]
    own: bool


def _candidates(family: Family) -> list[_Candidate]:
    """The rows of ``family`` itself, then the billed ones of those that it is like, then the metered ones of others."""
    ranked: list[tuple[int, _Candidate]] = []
    for row in TABLE:
        rank = 0 if row.family == family.name else 1 if row.family in family.like else 2
        if rank == 0 or row.kind is METERED or (rank == 1 and row.kind is not FREE):
            ranked.append((rank, _Candidate(row, row.tail.split("/"), rank < 2)))
    return [candidate for _, candidate in sorted(ranked, key=lambda each: each[0])]


_CANDIDATES = {name: _candidates(family) for name, family in BY_NAME.items()}


def find(family: str, method: str, path: str, *, body: bool = False, names_model: bool = False) -> Endpoint:
    """The endpoint that ``method`` and ``path`` (as sent; a query is ignored) name at an upstream of ``family``.

    ``body`` says that the request carries one, which some servers take even with a method that only reads, and
    ``names_model`` that its query names a model: there are servers that generate for a GET.
    """
    method = method.upper()
    reads = method in _READING
    names_model = names_model and not _filters(method, path)
    body = body or names_model
    spelt = readings(path)
    found: list[Row] = []
    for segments in spelt:
        row = _match(family, segments, "POST") if not reads or body else None
        if row is None or (reads and row.kind is FREE):
            row = _match(family, segments, method) if reads else row
        if row is not None:
            found.append(row)
    for kind in (METERED, UNMETERED):
        for row in found:
            if row.kind is kind:
                return row.endpoint()
    if found and len(spelt) == 1 and _fits_exactly(spelt[0], found[0]):
        return found[0].endpoint()
    return Endpoint(
        name=OTHER, kind=FREE if reads and not names_model else EndpointClass.UNKNOWN, protocol=family, family=family
    )


def _filters(method: str, path: str) -> bool:
    """Whether a GET of ``path``, in its plain spelling, is known to only list what its query selects by a model."""
    spelt = readings(path)
    return method == "GET" and len(spelt) == 1 and any(_ends_with(spelt[0], tail, own=False) for tail in _LISTS)


def _match(family: str, segments: tuple[str, ...], method: str) -> Row | None:
    for candidate in _CANDIDATES[family]:
        if candidate.row.method == method and _ends_with(segments, candidate.tail, own=candidate.own):
            return candidate.row
    return None


def _ends_with(segments: tuple[str, ...], tail: list[str], *, own: bool) -> bool:
    """Whether the path ends so. At another family's upstream a version segment must stand before the tail."""
    if len(segments) < len(tail) or not all(map(_fits, segments[-len(tail) :], tail)):
        return False
    before = segments[: -len(tail)]
    return own or tail[0] in _UNVERSIONED or (bool(before) and _is_version(before[-1].lower()))


def _is_version(segment: str) -> bool:
    return segment in _COMPATIBLE or (segment[:1] == "v" and segment[1:2].isdigit())


def _fits(segment: str, pattern: str) -> bool:
    """Whether a segment is what a row names, in any case of letters."""
    if pattern == "*":
        return True
    if pattern.startswith("*:"):
        return segment.lower().endswith(pattern[1:].lower()) and len(segment) > len(pattern) - 1
    return segment.lower() == pattern.lower()


def _fits_exactly(segments: tuple[str, ...], row: Row) -> bool:
    tail = row.tail.split("/")
    return all(
        pattern == "*" or segment == pattern or (pattern[:2] == "*:" and segment.endswith(pattern[1:]))
        for segment, pattern in zip(segments[-len(tail) :], tail, strict=True)
    )
