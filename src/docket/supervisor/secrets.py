"""Takes credentials out of text before it is recorded or printed, and says that one was there.

Knows three kinds: values that stand in docket's own environment under a name that says secret, values given to an
option or assignment with such a name, and the shapes of well-known keys. Invariant: a marker never holds a part of
what it replaces.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

MARKER = "[redacted]"
MIN_SECRET = 8
"""Shorter values of the environment are not looked for: they are words, and replacing them would garble the record."""

_NAME = r"(?:api[-_]?key|apikey|[-_]key|^key|token(?!s|iz)|secret|passw(?:or)?d|passwd|credential|authorization|cookie)"
_SECRET_NAME = re.compile(_NAME, re.IGNORECASE)
_ASSIGNED = re.compile(r"^(?P<name>-{0,2}[A-Za-z][\w.-]*)=(?P<value>.+)$", re.DOTALL)
_SHAPES = re.compile(
    r"""
    (?P<scheme>\b[a-z][a-z0-9+.-]*://)[^/\s@]*@                              # userinfo of a URL (RFC 3986 3.2.1)
    | (?P<auth>\b(?:bearer|basic)\s+)[\w.~+/=-]{8,}                          # an Authorization value (RFC 6750)
    | (?P<query>[?&](?:key|api_key|apikey|access_token|token|sig|signature)=)[^&\s]+
    | \b(?:sk|rk|pk)-[\w-]{12,} | \bAIza[\w-]{20,} | \bgh[opsu]_\w{20,} | \bgithub_pat_\w{20,}
    | \bxox[abprs]-[\w-]{10,} | \bAKIA[0-9A-Z]{12,} | \bhf_\w{16,} | \beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*
    """,
    re.IGNORECASE | re.VERBOSE,
)


class Secrets:
    """What must not be written down in this run."""

    def __init__(self, environ: Mapping[str, str], held: Collection[str] = ()) -> None:
        """``held`` are keys that docket keeps from the agent."""
        values = {value for name, value in environ.items() if len(value) >= MIN_SECRET and _SECRET_NAME.search(name)}
        longest_first = sorted({*values, *held}, key=len, reverse=True)
        self._values = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def redact(self, text: str) -> str:
        """``text`` with every known credential replaced by the marker."""
        if self._values is not None:
            text = self._values.sub(MARKER, text)
        return _SHAPES.sub(_marked, text)

    def redact_argv(self, argv: Iterable[str]) -> list[str]:
        """A command line, also without the values of options and assignments whose names say secret."""
        shown: list[str] = []
        secret_follows = False
        for word in argv:
            assigned = _ASSIGNED.match(word)
            if secret_follows and not word.startswith("-"):
                shown.append(MARKER)
            elif assigned and _SECRET_NAME.search(assigned["name"]):
                shown.append(f"{assigned['name']}={MARKER}")
            else:
                shown.append(self.redact(word))
            secret_follows = word.startswith("-") and not assigned and bool(_SECRET_NAME.search(word))
        return shown


def _marked(match: re.Match[str]) -> str:
    if match["scheme"]:
        return f"{match['scheme']}{MARKER}@"
    return f"{match['auth'] or match['query'] or ''}{MARKER}"
