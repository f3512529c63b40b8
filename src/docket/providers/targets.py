"""The readings of a request target: every path that some server may take it for.

Servers differ in what they decode, resolve and cut off. Invariant: a path on which two servers could disagree has more
than one reading here, so that whoever classifies it can take the strictest.
"""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import unquote

MAX_DECODINGS = 4
"""Times that a path is percent-decoded: one layer of servers each."""
_ENDS = ";?#\0"
"""Characters at which some server ends a path, once it has decoded it."""
_BEFORE_A_MODEL = frozenset({"models", "model", "endpoints", "tunedmodels", "deployments"})
"""Segments, in lower case, that stand before a model's name: Google, Bedrock, Vertex AI, tuned models, Azure."""
_BEDROCK = frozenset({"invoke", "invoke-with-response-stream", "converse", "converse-stream"})

USUAL_PATH = 256
"""Characters of a path that is remembered once it was read: an agent uses a handful of them, and none is longer."""

Segments = tuple[str, ...]


def as_written(path: str) -> Segments:
    """The segments of ``path``, each decoded once; empty ones and ``.`` mean nothing, and so does the query."""
    return tuple(s for s in map(unquote, path.partition("?")[0].split("/")) if s not in ("", "."))


def readings(path: str) -> tuple[Segments, ...]:
    """The distinct readings of ``path`` (a query is ignored), as written first; a plain path has one."""
    written = path.partition("?")[0]
    decoded = _decoded(written)
    cut = decoded
    for end in _ENDS:
        cut = cut.partition(end)[0]
    found = (as_written(written), _resolved(decoded), _resolved(cut))
    return tuple(dict.fromkeys(found))


def models_named(path: str, *, known: bool = True) -> tuple[str, ...]:
    """The models that ``path`` names by any reading, without a verb (``:generateContent``) behind them.

    On a path that is not ``known`` to be another kind of endpoint, whatever stands behind ``models`` may be one.
    """
    return _models_named(path, known) if len(path) <= USUAL_PATH else _models_named.__wrapped__(path, known)


@lru_cache(maxsize=1024)
def _models_named(path: str, known: bool) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for segments in readings(path):
        for at, segment in enumerate(segments[:-1]):
            if segment.lower() in _BEFORE_A_MODEL:
                for name in _behind(segments, at, known=known):
                    found[name] = None
    return tuple(name for name in found if name)


def _behind(segments: Segments, at: int, *, known: bool) -> tuple[str, ...]:
    """The models that may be named behind the segment ``at``."""
    marker, name, rest = segments[at].lower(), segments[at + 1], segments[at + 1 :]
    if marker == "deployments" and at and segments[at - 1].lower() == "openai":
        return (name,)
    if marker == "model" and segments[-1].lower() in _BEDROCK:
        return ("/".join(rest[:-1]),)
    if len(rest) == 1 and ":" in name:
        return (name.rpartition(":")[0],)
    return () if known else (name, "/".join(rest).rpartition(":")[0] or "/".join(rest))


def _decoded(path: str) -> str:
    for _ in range(MAX_DECODINGS):
        further = unquote(path)
        if further == path:
            break
        path = further
    return path.replace("\\", "/")


def _resolved(path: str) -> Segments:
    """The segments of a decoded path without parameters (``;x``) and with ``..`` taken."""
    segments: list[str] = []
    for segment in path.split("/"):
        name = segment.partition(";")[0].strip()
        if name == "..":
            del segments[-1:]
        elif name not in ("", "."):
            segments.append(name)
    return tuple(segments)
