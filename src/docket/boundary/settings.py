"""What the policy and the run say about the boundary, as one value."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field

from docket.boundary.crowd import MAX_CONNECTIONS
from docket.boundary.held_keys import HeldKeys
from docket.boundary.http1.upstream import Limits
from docket.boundary.routes import Route


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of one run's boundary."""

    routes: tuple[Route, ...]
    usd_cap: bool = False
    capped: bool = False
    """Whether any cap on calls, tokens or money stands."""
    limits: Limits = field(default_factory=Limits)
    environment: Mapping[str, str] = field(default_factory=dict)
    """docket's own environment: its proxy variables are honoured."""
    record_requests: bool = False
    record_responses: bool = False
    request_stream_usage: bool = False
    """Whether streamed chat requests that say nothing about usage are made to ask for it."""
    max_body_bytes: int = 0
    """Bytes of a body that are kept for the record."""
    most_connections: int = MAX_CONNECTIONS
    """Connections of the agent that may be open at once."""
    held: HeldKeys | None = None
    """Keys that docket keeps from the agent and puts in on the way out."""
    tls: ssl.SSLContext | None = None
    """For upstreams; None takes the system's store and ``SSL_CERT_FILE``."""
