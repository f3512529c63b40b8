"""What a receipt is built from beside the fold of the ledger: values of the supervisor, frozen.

Invariant: everything here is public, except what stands in a field named ``private`` or in the ``private`` members of
the policy document.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from docket.primitives.canonical import Json, JsonObject
from docket.primitives.money import ZERO, Usd

FORMAT = "docket-receipt/1"
LEDGER_FORMAT = "docket-ledger/1"
Kind = Literal["complete", "recovered", "from-memory"]
"""Sealed in its place; made after the supervisor died; made by the supervisor where it could not write."""
Known = bool | Literal["unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """``ops.evidence``: how whole the record is. The default is a run whose every event was written."""

    ledger_complete: Known = True
    """``"unknown"`` where nobody saw what happened behind the last checkpoint."""
    intact: bool = True
    """Whether the files were, at every look, what docket had written."""
    unwritten_events: int = 0
    write_failures: int = 0
    first_failing_seq: int | None = None
    """The seq that the first lost event would have had."""
    gaps: Mapping[str, int] = field(default_factory=dict)
    """Lost events that no ``x-docket.ledger-gap`` tells of, by type."""

    @property
    def whole(self) -> bool:
        """Whether no event is known to be missing."""
        return self.ledger_complete is True and not self.unwritten_events and not self.gaps

    def to_json(self) -> JsonObject:
        document: JsonObject = {
            "ledger_complete": self.ledger_complete,
            "intact": self.intact,
            "unwritten_events": self.unwritten_events,
            "write_failures": self.write_failures,
            "gaps": dict(self.gaps),
        }
        if self.first_failing_seq is not None:
            document["first_failing_seq"] = self.first_failing_seq
        return document


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """Limits of the policy (None: no such cap) and what was booked against them."""

    usd_limit: Usd | None = None
    usd_booked: Usd = ZERO
    tokens_limit: int | None = None
    tokens_booked: int = 0
    calls_limit: int | None = None
    wall_limit_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Proven:
    """An event of the ledger, as it stands there, with its inclusion proof in the tree of the ledger's size."""

    event: JsonObject
    index: int
    size: int
    hashes: tuple[str, ...]

    def to_json(self) -> JsonObject:
        proof: JsonObject = {"index": self.index, "size": self.size, "hashes": list(self.hashes)}
        return {"event": self.event, "proof": proof}


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A ``session.start``; for an earlier session also its last checkpoint and, where it ended, its end."""

    start: Proven
    checkpoint: str | None = None
    end: Proven | None = None

    def to_json(self) -> JsonObject:
        document = self.start.to_json()
        if self.checkpoint is not None:
            document["checkpoint"] = self.checkpoint
        if self.end is not None:
            document["end"] = self.end.to_json()
        return document


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """The ledger that the receipt binds."""

    size: int
    root: str
    head: str
    checkpoint: str
    """The whole last signed note."""
    starts: tuple[Start, ...]
    end: Proven | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What the supervisor knows of a run."""

    docket: str
    created_at: str
    """RFC 3339 in UTC with microseconds."""
    tool: JsonObject
    outcome: str
    exit: JsonObject
    """``{code}`` or ``{signal}`` of the agent; empty where its end is unknown."""
    policy: JsonObject
    """The policy document with its private members disclosed; the session's start names its digest."""
    tables: tuple[JsonObject, ...]
    """``{digest, source, date}`` of the price table of every session."""
    breach: JsonObject | None = None
    """``{cap, limit, observed}`` of the first cap that docket found reached in this session, recorded or not."""
    kind: Kind = "complete"
    attested: int = 0
    """Events that the last checkpoint covers; asked of a recovered run."""
    evidence: Evidence = Evidence()
    caps: Caps = Caps()
    enforcement: JsonObject = field(default_factory=dict)
    """What was enforced by which mechanism, by name."""
    cache: JsonObject | None = None
    private: Mapping[str, Json] = field(default_factory=dict)
    """Label, argv, cwd."""
    limits: tuple[str, ...] = ()
    """Further sentences on what this run does not show: opaque tunnels, unobserved agents and the like."""
