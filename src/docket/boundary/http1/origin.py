"""Where an upstream lives: scheme, host and port of its ``base_url``, and the path that clients append to."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import SplitResult, unquote_to_bytes, urlsplit

from docket.errors import UsageError

DEFAULT_PORTS = {"https": 443, "http": 80}


@dataclass(frozen=True, slots=True)
class Origin:
    """Scheme, host (without brackets) and port."""

    scheme: str
    host: str
    port: int
    authorization: bytes | None = field(default=None, repr=False)
    """Value of Authorization that a user in ``base_url`` asks for (RFC 7617), in place of the agent's own."""

    @property
    def authority(self) -> bytes:
        """The value of Host: the port only where it is not the scheme's own (RFC 9110 section 7.2)."""
        name = _in_address(self.host)
        return name if self.port == DEFAULT_PORTS[self.scheme] else name + b":%d" % self.port

    @property
    def name(self) -> bytes:
        """The host as it stands in an address."""
        return _in_address(self.host)


@lru_cache(maxsize=256)
def _in_address(host: str) -> bytes:
    return f"[{host}]".encode() if ":" in host else host.encode("idna")


def parse_base_url(text: str) -> tuple[Origin, str]:
    """The origin of an upstream's ``base_url`` and its path without a final slash. Raises UsageError."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"base_url is not an address: {error}") from error
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        raise UsageError("base_url must be an http or https address", hint="for example https://api.openai.com/v1")
    if parts.query or parts.fragment:
        raise UsageError("base_url holds a query or a fragment", hint="give keys to the agent, in its own variables")
    origin = Origin(parts.scheme, parts.hostname, port or DEFAULT_PORTS[parts.scheme], _basic(parts))
    return origin, parts.path.rstrip("/")


def _basic(parts: SplitResult) -> bytes | None:
    if parts.username is None:
        return None
    user, password = (unquote_to_bytes(part or "") for part in (parts.username, parts.password))
    return b"Basic " + b64encode(user + b":" + password)
