"""What of a request target may be recorded: the path, and the values of parameters known to be harmless.

Invariant: an unknown parameter keeps its name and loses its value, with a marker that one was there; keys travel in
queries under names that no list of secrets ever completes.
"""

from __future__ import annotations

MARKER = "[redacted]"
HARMLESS = frozenset(
    {"after", "after_id", "alt", "api-version", "before", "before_id", "beta", "limit", "order", "purpose", "stream"}
)
"""Query parameters of the providers' documented APIs whose values hold no credential."""
MAX_TARGET = 2048
"""Characters of a target that are recorded; the request's digest covers what matters of the rest."""


def target(raw: bytes) -> str:
    """The recordable spelling of a request target."""
    path, question, query = raw.decode("ascii", "backslashreplace").partition("?")
    if not question:
        return path[:MAX_TARGET]
    return (path + "?" + "&".join(_parameter(part) for part in query.split("&")))[:MAX_TARGET]


def _parameter(part: str) -> str:
    name, equals, value = part.partition("=")
    if not equals:
        return name if name.lower() in HARMLESS or not name else MARKER
    return part if name.lower() in HARMLESS or not value else f"{name}={MARKER}"
