"""What a request asks for, independent of the provider; and what was seen of the answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from docket.ledger.usage import Counts

UNKNOWN_MODEL = "unknown"
"""Stands in events where no model could be read."""


class EndpointClass(StrEnum):
    """How an endpoint counts (one table, four classes)."""

    METERED = "metered"
    FREE = "free"
    UNMETERED = "unmetered"
    """Billed by the provider, but not by a figure that docket reads."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A recognised endpoint: ``name`` is its normalised path class, for example ``/v1/chat/completions``."""

    name: str
    kind: EndpointClass
    protocol: str
    """The wire protocol whose parser observes the answer, and whose error shape a refusal takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request to an endpoint, before admission."""

    upstream: str
    provider: str
    endpoint: Endpoint
    model: str = UNKNOWN_MODEL
    stream: bool = False
    max_output: int | None = None
    """Output limit in tokens that the request sets."""
    body_bytes: int = 0
    parsed: bool = False
    """Whether the body could be read; where not, the model is unknown."""
    stateful: bool = False
    """Whether the request builds on state that the provider keeps (``previous_response_id`` and the like)."""
    previous: str | None = None
    """The provider's id of the answer that this request continues."""
    retry_count: int | None = None
    credential: str | None = None
    """Fingerprint of the credential under a key of the run: in memory only, never written, never a label."""


Terminal = Literal["complete", "incomplete", "error", "truncated", "unterminated"]
"""How an answer ended by its own protocol; ``unterminated`` is a clean end with content and no terminator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What an observer made of a whole answer. Never wrong by guess: what was not seen is absent."""

    terminal: Terminal
    counts: Counts
    model: str | None = None
    tier: str | None = None
    finish: str | None = None
    error_type: str | None = None
    """The provider's own error type, where the answer (or an event in it) is an error."""
    answer_id: str | None = None
    """The provider's id of the answer, which a later stateful request may name."""
    unread: str | None = None
    """Why the body could not be read (``coding``, ``bomb``, ``line-limit``, ``nesting``, ``not-json``), if so."""
