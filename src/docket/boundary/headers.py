"""Which header fields cross the boundary, and what they become (RFC 9110 section 7.6.1).

Invariant: order, case, duplicates and bytes stay; only hop-by-hop fields go, ``Host`` is replaced in its place, and
nothing is added that the sender did not send, except a ``Host`` that HTTP/1.1 demands.
"""

from __future__ import annotations

from collections.abc import Sequence

from docket.boundary.wire import Framing, Header, tokens

HOP_BY_HOP = frozenset((b"connection", b"keep-alive", b"te", b"trailer", b"upgrade"))
"""Fields of one hop, with everything that begins with ``Proxy-`` and everything that Connection names."""
FRAMING = (b"content-length", b"transfer-encoding")
"""Fields that place the end of a message: each hop sends exactly one of them."""


def crossing(headers: Sequence[Header], framing: Framing, *, host: bytes | None = None) -> list[Header]:
    """The fields to send on, with a body that ends as ``framing`` says.

    ``host`` replaces the value of Host (added in front where there is none); None leaves Host alone (a response). The
    framing field keeps its place and spelling where the sender used the same one; a message without a body keeps its
    own (the Content-Length of an answer to HEAD means something, RFC 9110 section 8.6).
    """
    named = tokens(headers, b"connection")
    spelled = _framing_field(headers, framing)
    found: list[Header] = []
    host_seen = False
    for header in headers:
        name = header[0].lower()
        if name in FRAMING:
            if spelled is not None:
                found.append(spelled)
                spelled = None
        elif name in HOP_BY_HOP or name.startswith(b"proxy-") or (named and name in named):
            continue
        elif host is not None and name == b"host":
            if not host_seen:
                host_seen = True
                found.append((header[0], host))
        else:
            found.append(header)
    if host is not None and not host_seen:
        found.insert(0, (b"Host", host))
    if spelled is not None:
        found.append(spelled)
    return found


def _framing_field(headers: Sequence[Header], framing: Framing) -> Header | None:
    sent = {name.lower(): (name, value) for name, value in reversed(headers) if name.lower() in FRAMING}
    match framing.kind:
        case "none":
            return sent.get(b"transfer-encoding") or sent.get(b"content-length")
        case "sized":
            name, _ = sent.get(b"content-length", (b"Content-Length", b""))
            return (name, b"%d" % framing.length)
        case "chunked":
            return sent.get(b"transfer-encoding", (b"Transfer-Encoding", b"chunked"))
        case _:
            return None


def first(headers: Sequence[Header], name: bytes) -> bytes | None:
    """The first value of the field ``name`` (lower case)."""
    size = len(name)
    for key, value in headers:
        if len(key) == size and key.lower() == name:
            return value
    return None


def text(value: bytes | None, limit: int = 200) -> str | None:
    """A header value for the record: printable ASCII of at most ``limit`` characters, the rest as ``?``."""
    if value is None:
        return None
    return "".join(chr(byte) if 0x20 <= byte < 0x7F else "?" for byte in value[:limit])
