"""What the checks look at: the documents, what the walk found in the ledger, and what the caller pinned."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from docket.verify.canonical import Object
from docket.verify.checkpoints import Checkpoints
from docket.verify.report import Tail, Violation, Voucher
from docket.verify.walk import Session, Walk


@dataclass(frozen=True, slots=True)
class Documents:
    """The bytes of what is to be verified; None where there is no such file. Ledger and checkpoints are read once."""

    receipt: bytes | None = None
    ledger: Iterable[bytes] | None = None
    """Chunks."""
    proof: bytes | None = None
    """One event by itself (``docket-proof/1``); then nothing else is there."""
    checkpoints: Iterable[bytes] | None = None
    """Chunks; None for a ledger or receipt on its own, empty for a run directory without the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pins:
    """What the caller knows from elsewhere: hex of run key, ledger root and operator key."""

    run_key: str | None = None
    root: str | None = None
    operator: str | None = None


class Skip(Exception):
    """A check cannot run here; the message says why."""


@dataclass(slots=True)
class Case:
    """One verification."""

    documents: Documents
    pins: Pins
    receipt: Object | None = None
    """The receipt as it stands."""
    sealed: Object = field(default_factory=dict)
    """Its sealed form: what hashes and signatures are over."""
    proof: Object = field(default_factory=dict)
    """The sealed form of a proof document."""
    walk: Walk | None = None
    ledger_failure: Violation | None = None
    notes: Checkpoints | None = None
    fragment: bytes = b""
    """What follows the last LF of the ledger, where it was read to its end."""
    tail: Tail = Tail.NOTHING
    """What stands in the ledger beyond the receipt: "", ``continued``, ``fragment`` or ``lines``."""
    starts: list[Session] = field(default_factory=list)
    """The sessions as the receipt shows them."""
    vouchers: list[Voucher] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    unclosed: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    withheld: dict[str, int] = field(default_factory=dict)

    @property
    def bare(self) -> bool:
        """Whether there is a receipt and no ledger."""
        return self.walk is None

    def need_receipt(self) -> Object:
        """The sealed receipt, or Skip."""
        if self.receipt is None:
            raise Skip("no receipt")
        return self.sealed

    def need_walk(self) -> Walk:
        """The finished walk, or Skip."""
        if self.walk is None:
            raise Skip("a proof stands by itself" if self.proof else "needs the ledger")
        return self.walk
