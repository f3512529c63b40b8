"""The operator's own proxy: which upstreams are reached through it, by the usual environment variables.

Invariant: the values are those of docket's own environment at start, never those that the agent is given.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import unquote, urlsplit

from docket.boundary.http1.origin import Origin
from docket.errors import UsageError


class ProxyRule:
    """``HTTPS_PROXY``, ``HTTP_PROXY``, ``ALL_PROXY`` and ``NO_PROXY``, in either case, lower case first."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Raises UsageError for a proxy address that cannot be used."""
        self._proxies: dict[str, Origin] = {}
        self._credentials: dict[str, bytes] = {}
        for scheme in ("https", "http"):
            text = _lookup(environment, f"{scheme}_proxy") or _lookup(environment, "all_proxy")
            if text:
                self._add(scheme, text)
        self.schemes = frozenset(self._proxies)
        """Schemes of origins that may be reached through a proxy."""
        excluded = _lookup(environment, "no_proxy")
        self._excluded = [part.strip().lower() for part in excluded.split(",") if part.strip()]

    def _add(self, scheme: str, text: str) -> None:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
            raise UsageError(
                f"{scheme.upper()}_PROXY is not the address of an HTTP proxy",
                hint="use http://HOST:PORT, or unset it; SOCKS is not supported",
            )
        self._proxies[scheme] = Origin(parts.scheme, parts.hostname, port or (443 if parts.scheme == "https" else 80))
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._credentials[scheme] = b"Basic " + b64encode(pair.encode())

    def address(self, origin: Origin) -> Origin | None:
        """The proxy for ``origin``, or None where it is reached directly; loopback always is."""
        proxy = self._proxies.get(origin.scheme)
        if proxy is None or _is_loopback(origin.host) or self._is_excluded(origin):
            return None
        return proxy

    def credential(self, origin: Origin) -> bytes | None:
        """The value of Proxy-Authorization (RFC 7617) for the proxy of ``origin``."""
        return self._credentials.get(origin.scheme)

    def _is_excluded(self, origin: Origin) -> bool:
        host = origin.host.lower()
        for entry in self._excluded:
            name, colon, port = entry.rpartition(":")
            if colon and port.isdigit() and not name.endswith(":"):
                if int(port) != origin.port:
                    continue
                entry = name
            entry = entry.strip("[]").removeprefix("*").removeprefix(".")
            if not entry or host == entry or host.endswith("." + entry):
                return True
        return False


def _lookup(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name) or environment.get(name.upper()) or ""


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
