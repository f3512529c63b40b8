"""Calls as the boundary makes them of requests."""

from __future__ import annotations

from docket.providers import registry
from docket.providers.call import Call, Endpoint, Sent


def call_of(endpoint: Endpoint, body: bytes, path: str, *, upstream: str = "up", provider: str = "openai") -> Call:
    """What a request with an uncompressed ``body`` asks of ``endpoint``."""
    sent = Sent(upstream=upstream, provider=provider, endpoint=endpoint, path=path, body=body, body_bytes=len(body))
    return registry.call_of(sent)
