"""What verification says: findings by check, a verdict, and who vouches.

Invariant: a check that could not run is a ``skip`` with its reason, never a ``pass``; at most one check fails, the
first in the order of ``verifier.CHECKS``, so that the failure names the cause.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from docket.primitives.canonical import JsonObject


class Status(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    SKIP = "skip"


class Verdict(StrEnum):
    """The seven answers (spec section 10)."""

    VERIFIED = "verified"
    FAILED = "failed"
    UNREADABLE = "unreadable"
    INCOMPLETE = "incomplete"
    RECOVERED = "recovered"
    UNSEALED = "unsealed"
    UNFINISHED = "unfinished"

    @property
    def exit_code(self) -> int:
        """0 verified, 1 failed, 2 unreadable, 3 consistent but not whole."""
        return {"verified": 0, "failed": 1, "unreadable": 2}.get(self.value, 3)


class Tail(StrEnum):
    """What stands in a ledger behind the events that its receipt binds (spec section 6, B-3)."""

    NOTHING = "nothing"
    CONTINUED = "continued"
    """A right start of a later session."""
    LINES = "lines"
    """Whole lines that are no such start."""
    FRAGMENT = "fragment"
    """An unterminated line."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The answer of one check; ``detail`` says what was found, where, or why it could not run."""

    check: str
    status: Status
    detail: str

    def to_json(self) -> JsonObject:
        return {"id": self.check, "status": str(self.status), "detail": self.detail}


@dataclass(frozen=True, slots=True)
class Voucher:
    """A key whose signature holds: ``role`` is run or operator; ``pinned`` if the caller named this very key."""

    role: str
    key: str
    pinned: bool

    def to_json(self) -> JsonObject:
        return {"role": self.role, "key": self.key, "pinned": self.pinned}


@dataclass(slots=True)
class Report:
    """The whole answer."""

    verdict: Verdict
    findings: list[Finding] = field(default_factory=list)
    reason: str = ""
    """One sentence: why this verdict."""
    remarks: list[str] = field(default_factory=list)
    """What the reader should know beside the verdict: ``continued``, ``sessions not linked``, a drill, a torn line."""
    vouchers: list[Voucher] = field(default_factory=list)
    root_pinned: bool = False
    withheld: dict[str, int] = field(default_factory=dict)
    """Private members that stand as commitments only, by name."""
    unknown: list[str] = field(default_factory=list)
    """Types and members that this version does not understand: hashed, never judged."""
    tail: Tail = Tail.NOTHING
    facts: JsonObject = field(default_factory=dict)
    """Docket number, size, root, run key, cost: what the documents say, for people."""

    @property
    def failure(self) -> Finding | None:
        """The check that failed, if one did."""
        return next((finding for finding in self.findings if finding.status is Status.FAIL), None)

    def to_json(self) -> JsonObject:
        return {
            "verdict": str(self.verdict),
            "reason": self.reason,
            "checks": [finding.to_json() for finding in self.findings],
            "remarks": list(self.remarks),
            "vouched": [voucher.to_json() for voucher in self.vouchers],
            "root_pinned": self.root_pinned,
            "withheld": dict(self.withheld),
            "not_understood": list(self.unknown),
            **self.facts,
        }


class Violation(Exception):
    """A document breaks a rule. ``check`` is None where the place decides which check it is."""

    def __init__(self, detail: str, check: str | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.check = check


class Unreadable(Exception):
    """Not one of the documents at all."""
