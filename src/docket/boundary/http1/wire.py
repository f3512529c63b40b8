"""HTTP/1.1 messages on the wire (RFC 9112): heads, framing and chunks, without any I/O.

Invariant: what a parsed head holds is what was sent: field order, the case of names, duplicates, the bytes of values;
and a message whose end two readers could place differently is refused, never guessed (RFC 9112 section 11.2).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from docket.errors import FormatError
from docket.primitives.frozen import value

Header: TypeAlias = "tuple[bytes, bytes]"
"""A field's name as sent, and its value without the white space around it."""

MAX_LINE = 64 * 1024
"""Longest request line in bytes: agents put whole queries there; beyond it 414 (RFC 9110 section 15.5.15)."""
MAX_HEAD = 64 * 1024
"""Longest header section of a request in bytes: beta flags and cookies stay far below it; beyond it 431."""
MAX_RESPONSE_HEAD = 256 * 1024
"""Longest head of a response in bytes: wider than a request's, since the provider is not the party to be contained."""
MAX_CHUNK_LINE = 4 * 1024
"""Longest chunk-size line with its extensions, which nobody uses (RFC 9112 section 7.1.1)."""
MAX_SIZE_DIGITS = 16
"""Digits of a Content-Length or chunk size: 2**53 is far beyond any body here and overflows nothing."""

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_REQUEST_LINE = re.compile(rb"(" + _TOKEN + rb") ([^\x00-\x20\x7f]+) HTTP/([0-9])\.([0-9])")
_STATUS_LINE = re.compile(rb"HTTP/1\.([0-9]) ([1-9][0-9]{2})(?: ([^\x00\r\n]*))?")
_LINE = _TOKEN + rb":[^\x00\r\n]*"
_SECTION = re.compile(_LINE + rb"(?:\r\n" + _LINE + rb")*")
_LENGTH_LINE = re.compile(
    rb"\r\n(content-length:[ \t]*([0-9]{1,%d})[ \t]*)(?=\r\n|\Z)" % MAX_SIZE_DIGITS, re.IGNORECASE
)
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,%d})[ \t]*(?:;[^\x00\r\n]*)?" % MAX_SIZE_DIGITS)


class WireError(FormatError):
    """A message that breaks RFC 9112. ``status`` is the answer that a server gives to it."""

    code = "wire"

    def __init__(self, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@value
class Framing:
    """How a body ends: ``none``, ``sized`` (after ``length`` bytes), ``chunked`` or ``close`` (with the connection)."""

    kind: str
    length: int = 0


NO_BODY = Framing("none")
CHUNKED = Framing("chunked")
UNTIL_CLOSE = Framing("close")


class Head:
    """The fields of a message: their ``lines`` in order, and those of each field by its name in lower case (``named``).

    ``minor`` is the minor version of HTTP/1. Each line stands beside the name of its field in lower case: what is
    passed on goes as it came.
    """

    __slots__ = ("lines", "minor", "named")

    def __init__(self, minor: int, lines: Iterable[bytes]) -> None:
        """``lines`` are field lines as sent, without their ends."""
        self.minor = minor
        self.lines: list[tuple[bytes, bytes]] = []
        self.named: dict[bytes, list[bytes]] = {}
        named, ordered = self.named, self.lines
        for line in lines:
            name = line.partition(b":")[0].lower()
            ordered.append((name, line))
            if name in named:
                named[name].append(line)
            else:
                named[name] = [line]

    @property
    def media_type(self) -> bytes:
        """What Content-Type says, in lower case and without parameters; empty where it is missing (RFC 9110 8.3)."""
        lines = self.named.get(b"content-type")
        return lines[0][13:].partition(b";")[0].strip().lower() if lines else b""

    @property
    def persists(self) -> bool:
        """Whether the connection may carry another message after this one (RFC 9112 section 9.3)."""
        if b"connection" not in self.named:
            return self.minor == 1
        options = self.tokens(b"connection")
        return b"close" not in options if self.minor else b"keep-alive" in options

    def values(self, name: bytes) -> list[bytes]:
        """All values of the field ``name`` (lower case), in order."""
        lines = self.named.get(name)
        return [line[len(name) + 1 :].strip(b" \t") for line in lines] if lines else _NO_VALUES

    def first(self, name: bytes) -> bytes | None:
        """The first value of the field ``name`` (lower case)."""
        lines = self.named.get(name)
        return lines[0][len(name) + 1 :].strip(b" \t") if lines else None

    def count(self, name: bytes) -> int:
        """How many fields ``name`` (lower case) there are."""
        return len(self.named.get(name, _NO_VALUES))

    def tokens(self, name: bytes) -> list[bytes]:
        """The members, in lower case, of the list-valued field ``name`` (RFC 9110 section 5.6.1)."""
        if name not in self.named:
            return _NO_VALUES
        found = [part.strip(b" \t").lower() for value in self.values(name) for part in value.split(b",")]
        return [part for part in found if part]


class RequestHead(Head):
    """The head of a request; ``target`` is as sent."""

    __slots__ = ("framing", "known", "method", "target")

    def __init__(self, method: bytes, target: bytes, minor: int, lines: Iterable[bytes]) -> None:
        super().__init__(minor, lines)
        self.method = method
        self.target = target
        self.framing: Framing | None = None
        """How its body ends, where that was worked out already."""
        self.known: Known | None = None
        """Of a head that may come again: what readers worked out of it, the length of its body apart."""

    def with_length(self, line: bytes, length: int) -> RequestHead:
        """Return the same head with ``line`` in place of its one Content-Length field, which states ``length``."""
        again = RequestHead.__new__(RequestHead)
        again.minor, again.method, again.target, again.known = self.minor, self.method, self.target, self.known
        again.framing = Framing("sized", length) if length else NO_BODY
        again.named = {**self.named, b"content-length": [line]}
        again.lines = self.lines.copy()
        again.lines[again.lines.index((b"content-length", self.named[b"content-length"][0]))] = (
            b"content-length",
            line,
        )
        return again


class Known:
    """Room for what a reader of a head worked out once for all heads that are equal to it but for the body's length."""

    __slots__ = ("plan",)

    def __init__(self) -> None:
        self.plan: object = None


class RequestHeads:
    """Reads the heads of one connection: one that equals the last but for the length of its body is not read again.

    Clients send the same head with every call of a conversation. Only a head for which somebody worked out a plan is
    compared, so nothing but a head that was found good and routed is ever taken as read.
    """

    __slots__ = ("_after", "_before", "_last")

    def __init__(self) -> None:
        self._last: RequestHead | None = None
        self._before = self._after = b""

    def read(self, raw: bytes) -> RequestHead:
        """As ``parse_request``."""
        found = _LENGTH_LINE.search(raw)
        if found is None:
            return parse_request(raw)
        start, end = found.span(2)
        last = self._last
        if last is not None and raw[:start] == self._before and raw[end:] == self._after:
            known = last.known
            if known is not None and known.plan is not None:
                return last.with_length(found[1], int(found[2]))
        head = parse_request(raw)
        if len(head.named.get(b"content-length", ())) == 1:
            head.known = Known()
            self._last, self._before, self._after = head, raw[:start], raw[end:]
        return head


class ResponseHead(Head):
    """The head of a response; ``reason`` is the phrase as sent."""

    __slots__ = ("reason", "status")

    def __init__(self, minor: int, status: int, reason: bytes, lines: Iterable[bytes]) -> None:
        super().__init__(minor, lines)
        self.status = status
        self.reason = reason


_NO_VALUES: list[bytes] = []


def parse_request(head: bytes) -> RequestHead:
    """The request whose head is ``head``, from its first byte to before the empty line. Raises WireError."""
    line, _, rest = head.partition(b"\r\n")
    match = _REQUEST_LINE.fullmatch(line)
    if match is None:
        raise WireError("malformed request line")
    if match[3] != b"1":
        raise WireError("only HTTP/1.0 and HTTP/1.1 are spoken here", status=505)
    return RequestHead(match[1], match[2], 1 if match[4] != b"0" else 0, _lines(rest) if rest else ())


def parse_response(head: bytes) -> ResponseHead:
    """The response whose head is ``head``, from its first byte to before the empty line. Raises WireError."""
    line, _, rest = head.partition(b"\r\n")
    match = _STATUS_LINE.fullmatch(line)
    if match is None:
        raise WireError("malformed status line")
    return ResponseHead(1 if match[1] != b"0" else 0, int(match[2]), match[3] or b"", _lines(rest) if rest else ())


def _lines(section: bytes) -> list[bytes]:
    if not _SECTION.fullmatch(section):
        raise WireError("malformed header field")
    return section.split(b"\r\n")


def _headers(lines: list[bytes]) -> tuple[Header, ...]:
    parts = [line.partition(b":") for line in lines]
    return tuple([(name, value.strip(b" \t")) for name, _, value in parts])


def request_framing(head: RequestHead) -> Framing:
    """How the body of a request ends (RFC 9112 section 6.3). Raises WireError where readers could disagree."""
    named = head.named
    if b"transfer-encoding" in named:
        if b"content-length" in named:
            raise WireError("Transfer-Encoding beside Content-Length")
        return _chunked(head)
    return _sized(head) if b"content-length" in named else NO_BODY


def response_framing(head: ResponseHead, method: bytes) -> Framing:
    """How the body of the response to a ``method`` request ends (RFC 9112 section 6.3). Raises WireError.

    Transfer-Encoding outweighs Content-Length there, as section 6.3 has it; such a connection is not used again.
    """
    if method == b"HEAD" or head.status < 200 or head.status in (204, 304):
        return NO_BODY
    lines = head.named.get(b"content-length")
    if b"transfer-encoding" in head.named:
        if lines:
            _sized(head)
        return _chunked(head)
    return _sized(head) if lines else UNTIL_CLOSE


def may_be_followed(head: ResponseHead) -> bool:
    """Whether the connection may carry another response: it persists, and no reader could look for more of this one."""
    named = head.named
    if (b"connection" in named or head.minor != 1) and not head.persists:
        return False
    if head.status == 204:
        return b"transfer-encoding" not in named and b"content-length" not in named
    return not (b"transfer-encoding" in named and b"content-length" in named)


def _chunked(head: Head) -> Framing:
    """The framing of a message with Transfer-Encoding: chunked in one field of HTTP/1.1, or none that is known.

    Whatever else stands there (several fields, an empty one, a list, another coding) is read in different ways by
    different readers, and another coding would have to be taken off, since it is of one hop.
    """
    lines = head.named[b"transfer-encoding"]
    if head.minor == 0:
        raise WireError("Transfer-Encoding in HTTP/1.0")
    if len(lines) > 1:
        raise WireError("more than one Transfer-Encoding field")
    coding = lines[0][18:].strip(b" ").lower()  # llhttp does not know the coding with a tab behind it
    if coding == b"chunked":
        return CHUNKED
    if not coding.strip(b", \t"):
        raise WireError("an empty Transfer-Encoding field")
    raise WireError("a transfer coding other than chunked", status=501)


def _sized(head: Head) -> Framing:
    lines = head.named[b"content-length"]
    stated = lines[0][15:].strip(b" \t")
    if not stated.isdigit() or len(stated) > MAX_SIZE_DIGITS:
        raise WireError("malformed Content-Length")
    if len(lines) > 1 and any(other != stated for other in head.values(b"content-length")):
        raise WireError("malformed Content-Length")
    length = int(stated)
    return Framing("sized", length) if length else NO_BODY


@dataclass(slots=True)
class ChunkedDecoder:
    """Takes a chunked body apart (RFC 9112 section 7.1), however it is cut. ``rest`` holds what follows its end."""

    done: bool = False
    trailers: tuple[Header, ...] = ()
    rest: bytes = b""
    _pending: bytes = b""
    _left: int = 0
    _after_data: bool = False

    def feed(self, data: bytes) -> bytes:
        """The payload in the next bytes of the body. Raises WireError."""
        if self._pending:
            data, self._pending = self._pending + data, b""
        out: list[bytes] = []
        at, end = 0, len(data)
        while at < end:
            if self._left:
                piece = data[at : at + self._left]
                out.append(piece)
                self._left -= len(piece)
                at += len(piece)
                self._after_data = self._left == 0
                continue
            if self._after_data:
                if end - at < 2:
                    break
                if data[at : at + 2] != b"\r\n":
                    raise WireError("chunk without its line end")
                at += 2
                self._after_data = False
                continue
            line_end = data.find(b"\r\n", at, at + MAX_CHUNK_LINE)
            if line_end < 0:
                if end - at >= MAX_CHUNK_LINE:
                    raise WireError("chunk-size line too long")
                break
            match = _CHUNK_SIZE.fullmatch(data, at, line_end)
            if match is None:
                raise WireError("malformed chunk size")
            size = int(match[1], 16)
            if size == 0:
                at = self._finish(data, at, line_end + 2)
                break
            at = line_end + 2
            if data.startswith(b"\r\n", at + size):  # the whole chunk is there, as it nearly always is
                out.append(data[at : at + size])
                at += size + 2
            else:
                self._left = size
        if not self.done:
            self._pending = data[at:]
        return out[0] if len(out) == 1 else b"".join(out)

    def _finish(self, data: bytes, size_line: int, at: int) -> int:
        """Read the trailer section at ``at``; until it is whole, start over at its chunk-size line."""
        if data.startswith(b"\r\n", at):
            self.rest, self.done = data[at + 2 :], True
            return at + 2
        section_end = data.find(b"\r\n\r\n", at)
        if section_end < 0:
            if len(data) - at > MAX_HEAD:
                raise WireError("trailer section too long", status=431)
            return size_line
        self.trailers = _headers(_lines(data[at:section_end]))
        self.rest, self.done = data[section_end + 4 :], True
        return section_end + 4


def encode_request(method: bytes, target: bytes, lines: Iterable[bytes]) -> bytes:
    """The head of an HTTP/1.1 request with its empty line."""
    return b"\r\n".join([b"%b %b HTTP/1.1" % (method, target), *lines, b"", b""])


def encode_response(status: int, reason: bytes, lines: Iterable[bytes]) -> bytes:
    """The head of an HTTP/1.1 response with its empty line."""
    return b"\r\n".join([b"HTTP/1.1 %d %b" % (status, reason), *lines, b"", b""])


def field_lines(headers: Iterable[Header]) -> list[bytes]:
    """Field lines without their ends."""
    return [b"%b: %b" % header for header in headers]


def encode_chunk(data: bytes) -> bytes:
    """``data`` (not empty) as one chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def encode_last_chunk(trailers: Iterable[Header] = ()) -> bytes:
    """The end of a chunked body."""
    return b"\r\n".join([b"0", *field_lines(trailers), b"", b""])
