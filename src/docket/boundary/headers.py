"""Which header fields cross the boundary, and what they become (RFC 9110 section 7.6.1).

Invariant: order, case, duplicates and bytes stay; only hop-by-hop fields go, ``Host`` is replaced in its place, and
nothing is added that the sender did not send, except a ``Host`` that HTTP/1.1 demands.
"""

from __future__ import annotations

from docket.boundary.wire import Framing, Head, Header

HOP_BY_HOP = frozenset((b"connection", b"keep-alive", b"te", b"trailer", b"upgrade"))
"""Fields of one hop, with everything that begins with ``Proxy-`` and everything that Connection names."""
FRAMING = frozenset((b"content-length", b"transfer-encoding"))
"""Fields that place the end of a message: each hop sends exactly one of them."""


def crossing(head: Head, framing: Framing, *, host: bytes | None = None) -> list[Header]:
    """The fields to send on, with a body that ends as ``framing`` says.

    ``host`` replaces the value of Host (added in front where there is none); None leaves Host alone (a response). The
    framing field keeps its place and spelling where the sender used the same one; a message without a body keeps its
    own (the Content-Length of an answer to HEAD means something, RFC 9110 section 8.6).
    """
    named = head.tokens(b"connection")
    spelled = _framing_field(head, framing)
    found: list[Header] = []
    for header in head.headers:
        name = header[0].lower()
        if name in FRAMING:
            if spelled is not None:
                found.append(spelled)
                spelled = None
        elif name in HOP_BY_HOP or name.startswith(b"proxy-") or name in named:
            continue
        elif host is not None and name == b"host":
            found.append((header[0], host))
        else:
            found.append(header)
    if host is not None and not head.values(b"host"):
        found.insert(0, (b"Host", host))
    if spelled is not None:
        found.append(spelled)
    return found


def _framing_field(head: Head, framing: Framing) -> Header | None:
    if framing.kind == "close":
        return None
    if framing.kind == "sized":
        return (_spelling(head, b"content-length") or b"Content-Length", b"%d" % framing.length)
    coded = head.values(b"transfer-encoding")
    if framing.kind == "chunked":
        return (_spelling(head, b"transfer-encoding") or b"Transfer-Encoding", coded[0] if coded else b"chunked")
    name = b"transfer-encoding" if coded else b"content-length"
    value = head.first(name)
    return None if value is None else (_spelling(head, name), value)


def _spelling(head: Head, name: bytes) -> bytes:
    """How the sender wrote the name of a field; empty where it did not send it."""
    return next((key for key, _ in head.headers if key.lower() == name), b"") if head.values(name) else b""


def text(value: bytes | None, limit: int = 200) -> str | None:
    """A header value for the record: printable ASCII of at most ``limit`` characters, the rest as ``?``."""
    if value is None:
        return None
    return "".join(chr(byte) if 0x20 <= byte < 0x7F else "?" for byte in value[:limit])
