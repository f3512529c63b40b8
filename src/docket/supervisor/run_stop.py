"""Why a run is ended before its agent ends by itself, and the one place that ends it.

Invariant: the first reason stays the reason; each is said to the operator, and the ledger holds it before it is acted
on (or the ledger itself is the reason).
"""

from __future__ import annotations

from collections.abc import Callable
from signal import Signals

from docket.errors import LedgerError
from docket.ledger.events import CapExceeded
from docket.policy.model import Policy
from docket.process.supervision import Guardian
from docket.supervisor.announce import Announcer
from docket.supervisor.lifecycle import Stop


class Stopping:
    """Ends one run."""

    def __init__(
        self, policy: Policy, guardian: Guardian, announcer: Announcer, cut_streams: Callable[[str], None]
    ) -> None:
        """``cut_streams`` cuts the answers under way, for the reason that it is given."""
        self._policy = policy
        self._guardian = guardian
        self._announcer = announcer
        self.reason: Stop | None = None
        self.breach: CapExceeded | None = None
        """The first cap that was reached, whether or not the ledger could be told."""
        self._cut_streams = cut_streams

    @property
    def grace_seconds(self) -> float:
        """Between SIGTERM and SIGKILL."""
        return self._policy.caps.grace_seconds.seconds

    def asked(self, number: Signals) -> None:
        """Somebody sent docket a signal; the relay has forwarded it already."""
        if self.reason is None:
            self.reason = Stop.SIGNAL
            self._announcer.remark(f"{number.name}: ending the run")

    def breached(self, event: CapExceeded) -> None:
        """A cap was reached, and the answer that reached it was delivered."""
        self.breach = self.breach or event
        caps = self._policy.caps
        kill = caps.on_breach == "kill"
        self._announcer.breached(event, kill=kill)
        if caps.cut_streams:
            self._cut_streams("cut by docket: a cap was reached")
        if kill:
            self._stop(Stop.CAP)

    def full(self, event: CapExceeded) -> None:
        """The ledger met a ceiling; whatever ``on_breach`` says, an unrecorded run does not go on."""
        self.breach = self.breach or event
        self._announcer.breached(event, kill=True)
        self._stop(Stop.CAP)

    def evidence_broke(self, error: LedgerError) -> None:
        """The ledger takes nothing more."""
        self._stop(Stop.EVIDENCE, str(error))

    def evidence_lost(self) -> None:
        """An event is lost, and the policy goes on all the same."""
        refuses = self._policy.resilience.write_failure == "refuse"
        consequence = "no model call is forwarded meanwhile" if refuses else "the run goes on without it"
        self._announcer.problem(f"an event could not be written to the ledger; {consequence}")

    def fault(self, error: Exception) -> None:
        """docket itself could not carry a call."""
        if not isinstance(error, LedgerError):
            self._stop(Stop.INTERNAL, f"fault of docket itself: {type(error).__name__}")

    def _stop(self, stop: Stop, detail: str | None = None) -> None:
        if self.reason is not None:
            return
        self.reason = stop
        if detail is not None:
            self._announcer.stopping(stop, detail)
        self._guardian.stop(self.grace_seconds)
