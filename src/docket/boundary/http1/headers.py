"""Which header fields cross the boundary, and what they become (RFC 9110 section 7.6.1).

Invariant: order, case, duplicates and bytes stay; only hop-by-hop fields go, ``Host`` is replaced in its place, and
nothing is added that the sender did not send, except a ``Host`` that HTTP/1.1 demands.
"""

from __future__ import annotations

from docket.boundary.http1.wire import Framing, Head

HOP_BY_HOP = frozenset((b"connection", b"keep-alive", b"te", b"trailer", b"upgrade"))
"""Fields of one hop, with everything that begins with ``Proxy-`` and everything that Connection names."""
FRAMING = frozenset((b"content-length", b"transfer-encoding"))
"""Fields that place the end of a message: each hop sends exactly one of them."""
_PRINTABLE = bytes(byte if 0x20 <= byte < 0x7F else ord("?") for byte in range(256))
_LOOKED_AT = HOP_BY_HOP | FRAMING | {b"host"}
_FIELD_OF = {"sized": b"content-length", "chunked": b"transfer-encoding"}


def crossing(head: Head, framing: Framing, *, host: bytes | None = None) -> list[bytes]:
    """The field lines to send on, with a body that ends as ``framing`` says.

    ``host`` replaces the value of Host (added in front where there is none); None leaves Host alone (a response). The
    framing field keeps its place and spelling where the sender used the same one; a message without a body keeps its
    own (the Content-Length of an answer to HEAD means something, RFC 9110 section 8.6).
    """
    named = head.tokens(b"connection") if b"connection" in head.named else ()
    kind, placed = framing.kind, framing.kind == "close"
    own = _FIELD_OF.get(kind) or (b"transfer-encoding" if b"transfer-encoding" in head.named else b"content-length")
    hosted = False
    found: list[bytes] = []
    for name, line in head.lines:
        if name not in _LOOKED_AT and name not in named and name[:6] != b"proxy-":
            found.append(line)
        elif name in FRAMING:
            if name == own and not placed:
                placed = True
                found.append(b"%b: %d" % (line[: len(name)], framing.length) if kind == "sized" else line)
        elif name == b"host" and name not in named:
            hosted = True
            found.append(line if host is None else b"%b: %b" % (line[: len(name)], host))
    if host is not None and not hosted:
        found.insert(0, b"Host: %b" % host)
    if not placed and kind == "sized":
        found.append(b"Content-Length: %d" % framing.length)
    elif not placed and kind == "chunked":
        found.append(b"Transfer-Encoding: chunked")
    return found


def text(value: bytes | None, limit: int = 200) -> str | None:
    """A header value for the record: printable ASCII of at most ``limit`` characters, the rest as ``?``."""
    if value is None:
        return None
    return value[:limit].translate(_PRINTABLE).decode("ascii")
