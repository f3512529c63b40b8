"""What a request's body leaves open: members by which docket decides and that two servers could read differently.

Servers take the first or the last of two members with one name, and some compare names without regard to case.
Invariant: where this finds nothing, every reader of JSON reads the deciding members as docket does.
"""

from __future__ import annotations

import json
import re
from functools import partial

import orjson

from docket.providers.json_fields import Document, member, members

_CASED = (
    "model models fallbacks fallback_models fallback_model max_tokens max_completion_tokens max_output_tokens stream n"
    " best_of service_tier speed background tools generationConfig generation_config maxOutputTokens candidateCount"
    " candidate_count options num_predict stream_options include_usage previous_response_id conversation prompt"
    " web_search_options container mcp_servers cachedContent cached_content inferenceConfig"
)
DECIDING = frozenset(_CASED.split())
"""Members of a request by which docket decides."""
_FOLDED = frozenset(name.casefold() for name in DECIDING)
_harmless = set(DECIDING)
"""Names that were found to be read alike by everybody: nearly all names of requests are the protocol's own."""
MAX_HARMLESS = 1024
MAX_NAME = 64
"""Names remembered at most, and their longest in characters, which bounds memory whatever agents send."""
_OBJECTS = ("generationConfig", "generation_config", "options", "stream_options", "inferenceConfig")
"""Members of the body whose own members decide."""
_LISTS = ("fallbacks", "models", "tools")
"""Members of the body that list objects whose own members decide."""
_NESTED = frozenset((*_OBJECTS, *_LISTS))
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_COUNTS = ("n", "best_of", "candidateCount", "candidate_count")
"""Members that multiply an answer; one that is no count could mean any number."""
_MULTIPLIERS = frozenset(_COUNTS)


SOURCES = frozenset(
    {
        "type",
        "source",
        "url",
        "image_url",
        "file",
        "file_id",
        "file_url",
        "fileData",
        "file_data",
        "fileUri",
        "file_uri",
    }
)
"""Members of messages that say where input comes from: where one repeats, it may come from elsewhere."""


class _Twice(dict[str, object]):
    """An object in which a name stood more than once: ``name``."""

    name = ""


def ambiguity(body: bytes, document: Document, repeated: set[str] | None = None) -> str | None:
    """The name of a deciding member of ``body`` that readers could take differently, or None.

    ``document`` is ``body`` as it was read. Members of messages and of whatever else decides nothing may repeat;
    ``repeated`` takes the names of those that do.
    """
    try:
        kept = orjson.dumps(document)
        if kept == body or _holds_no_more(body, kept):  # nothing can have been dropped
            return _misread(document)
        whole = json.loads(body, object_pairs_hook=partial(_pairs, repeated))
    except (orjson.JSONEncodeError, ValueError, RecursionError):
        return "a number or a depth that JSON readers differ on"
    return _repeated(whole) or _misread(document)


def _holds_no_more(body: bytes, kept: bytes) -> bool:
    """Whether ``body`` has as many members as ``kept``, which was read from it.

    Outside strings a colon stands in members alone, so that one which was dropped for another of its name shows.
    """
    return _STRING.sub(b"", body).count(b":") == _STRING.sub(b"", kept).count(b":")


def _pairs(repeated: set[str] | None, pairs: list[tuple[str, object]]) -> dict[str, object]:
    plain = dict(pairs)
    if len(plain) == len(pairs):
        return plain
    twice, seen = _Twice(plain), set()
    for name, _ in pairs:
        if name in seen:
            twice.name = twice.name or name
            if repeated is not None:
                repeated.add(name)
        seen.add(name)
    return twice


def _objects(document: Document) -> list[Document]:
    """The objects of a body whose members decide: itself, and some inside it."""
    found = [document, *[member(document, name) for name in _OBJECTS]]
    for name in _LISTS:
        found += members(document, name)
    return found


def _repeated(document: Document) -> str | None:
    for each in _objects(document):
        if isinstance(each, _Twice):
            return each.name
    return None


def _misread(document: Document) -> str | None:
    """A deciding name in other letters (``Model``), or a multiplier that is no count."""
    nested = not _NESTED.isdisjoint(document)
    for each in _objects(document) if nested else (document,):
        if _harmless.issuperset(each):
            continue
        for name in each:
            if name in DECIDING:
                continue
            if name.casefold() in _FOLDED:
                return name
            if len(_harmless) < MAX_HARMLESS and len(name) <= MAX_NAME:
                _harmless.add(name)
    if not nested and _MULTIPLIERS.isdisjoint(document):
        return None
    for name in _COUNTS:
        for place in (document, document.get("generationConfig"), document.get("generation_config")):
            value = place.get(name) if isinstance(place, dict) else None
            if value is not None and type(value) is not int:
                return name
    return None
