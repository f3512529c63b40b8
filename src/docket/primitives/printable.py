"""Text for people and terminals: characters that move a cursor, reorder a line or show nothing are replaced.

Owns what may be printed of text that an agent, a provider, a file name or a caller chose. Invariant: what these
functions give holds no control character (C0, C1), no bidirectional control and no invisible one.
"""

from __future__ import annotations

import unicodedata

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
"""Stands for each character that is not shown."""
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories that move the cursor, reorder text or show nothing."""


def printable(text: str) -> str:
    """Return ``text`` with every character that is not plain text replaced by U+FFFD; line feeds stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(REPLACEMENT if unicodedata.category(c) in _HIDDEN and c != "\n" else c for c in text)


def one_line(text: str) -> str:
    """As ``printable``, with line feeds replaced too: what an agent chose must not look like a line of docket's."""
    return printable(text.replace("\n", REPLACEMENT))


def printable_json(document: str) -> str:
    """Return the JSON text ``document`` with the same value, and hidden characters written as ``\\u`` escapes.

    They can only stand inside its strings (RFC 8259 section 7); line feeds between its tokens stay.
    """
    if document.isascii() and "\x7f" not in document:
        return document
    return "".join(_escape(c) if unicodedata.category(c) in _HIDDEN and c != "\n" else c for c in document)


def ascii_json(document: str) -> str:
    """Return the JSON text ``document`` with the same value, every character beyond ASCII as a ``\\u`` escape."""
    if document.isascii():
        return document
    return "".join(c if c.isascii() else _escape(c) for c in document)


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
