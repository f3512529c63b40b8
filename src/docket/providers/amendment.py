"""The two changes that docket may make to a request, each recorded: a missing version segment, and a wish for usage.

Invariant: everything else of the request stays byte for byte; a request that says anything about usage itself is left
alone; what the change makes the provider add can be taken out of the answer again.
"""

from __future__ import annotations

import re

from docket.families import BY_NAME
from docket.providers.call import Call, Endpoint
from docket.providers.endpoints import OTHER
from docket.providers.targets import readings

ASKING = frozenset({"openai-chat", "openai-completions"})
"""Protocols in which a stream carries usage only if the request asks (``stream_options.include_usage``)."""
WISH = b'"stream_options":{"include_usage":true},'
_VERSION = re.compile(r"v\d+[a-z0-9]*")
_OPENING = re.compile(rb"\s*\{")
_FRAME_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_USAGE = re.compile(rb'"usage"\s*:\s*\{')
_NO_CHOICES = re.compile(rb'"choices"\s*:\s*\[\s*\]')
MAX_FRAME = 64 * 1024
"""Bytes of an unfinished event that are kept back: a usage frame has some hundreds."""


def versioned(endpoint: Endpoint, target: bytes, base_path: bytes) -> bytes | None:
    """``target`` with the version segment that its upstream needs, or None where nothing is missing.

    ``base_path`` is the path of the upstream's base URL, behind which the version stands.
    """
    version = BY_NAME[endpoint.family].version
    if not version or endpoint.name == OTHER:
        return None
    path = target.partition(b"?")[0]
    spelt = readings(path.decode("latin-1"))
    if len(spelt) > 1 or any(_VERSION.fullmatch(segment) for segment in spelt[0]):
        return None
    prefix = base_path.rstrip(b"/")
    if not target.startswith(prefix + b"/"):
        return None
    return prefix + version + target[len(prefix) :]


def asking_for_usage(call: Call, body: bytes) -> bytes | None:
    """``body`` with the wish for usage in its stream, or None where it must stay as it is."""
    if not call.stream or call.endpoint.protocol not in ASKING or call.usage_in_stream is not None:
        return None
    opening = _OPENING.match(body)
    if opening is None or b'"stream_options"' in body:
        return None
    return body[: opening.end()] + WISH + body[opening.end() :]


class UsageFrameRemover:
    """Takes the usage frame out of a stream of chat chunks, whatever the cuts: an event without choices, with usage."""

    def __init__(self) -> None:
        self._kept = b""

    def feed(self, data: bytes) -> bytes:
        """The bytes that may go on."""
        data = self._kept + data
        out: list[bytes] = []
        at = 0
        for end in _FRAME_END.finditer(data):
            frame = data[at : end.end()]
            if not _is_usage_frame(frame):
                out.append(frame)
            at = end.end()
        self._kept = data[at:]
        if len(self._kept) > MAX_FRAME:
            out.append(self._kept)
            self._kept = b""
        return b"".join(out)

    def rest(self) -> bytes:
        """What was kept back when the stream ended."""
        kept, self._kept = self._kept, b""
        return b"" if _is_usage_frame(kept) else kept


def _is_usage_frame(frame: bytes) -> bool:
    return _USAGE.search(frame) is not None and _NO_CHOICES.search(frame) is not None
