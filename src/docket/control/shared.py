"""What a run has leased of budgets that it shares with other runs, and whether a call fits it. Pure; nothing waits.

Invariant: what this session booked, what calls under way hold, and the call in question never pass what was leased; so
nothing is spent that the store had not given before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from docket.control.budget import Amounts, Meter, Wait
from docket.control.decision import Refused

AHEAD = 8
"""Calls of the largest size seen that a lease should cover at least."""


class SharedBudget:
    """The leases of one session."""

    def __init__(self, limited: Amounts, base: Amounts, on_short: Callable[[], None]) -> None:
        """``limited`` is 1 for what is limited and 0 for what is not. ``base`` is what earlier sessions booked.

        ``on_short`` is told when more is needed, or will be soon; it asks the store and does not wait for it.
        """
        self.limited = tuple(at for at in range(3) if limited[at])
        self._base = base
        self._on_short = on_short
        self._granted = [0, 0, 0]
        self._low = [0, 0, 0]
        """Below so much left, the next lease is asked for."""
        self._largest = [0, 0, 0]
        self.missing = [0, 0, 0]
        """What calls lack that did not fit since the last lease or refusal: the most of each."""
        self.ahead = True
        """Whether to ask before it is needed: not after the store had nothing to give."""
        self.refused: Refused | None = None
        """Why the store gives nothing; asked for anew with every call unless it is final."""

    @property
    def granted(self) -> Amounts:
        """All that was leased in this session."""
        return Amounts(*self._granted)

    def grant(self, amounts: Sequence[int | None]) -> None:
        """Add a lease; what it does not limit is None."""
        for at, amount in enumerate(amounts):
            self._granted[at] += amount or 0
            self._low[at] = (amount or 0) // 2
        self.refused, self.ahead, self.missing = None, True, [0, 0, 0]

    def refuse(self, refused: Refused) -> None:
        """Refuse what does not fit, until there is another lease."""
        self.refused, self.missing = refused, [0, 0, 0]

    def spent(self, meters: Sequence[Meter]) -> Amounts:
        """What this session booked."""
        return Amounts(*(meter.booked - base for meter, base in zip(meters, self._base, strict=True)))

    def least(self) -> Amounts:
        """What is lacked: a smaller lease would not help. At least one of everything limited."""
        return Amounts(*(max(1, missing) if at in self.limited else 0 for at, missing in enumerate(self.missing)))

    def want(self, per_renewal: Amounts) -> Amounts:
        """What to ask for: some calls ahead, and ``per_renewal`` where the caller saw more spent."""
        ahead = (max(AHEAD * largest, spent) for largest, spent in zip(self._largest, per_renewal, strict=True))
        return Amounts(*(max(amount, least) for amount, least in zip(ahead, self.least(), strict=True)))

    def ask(self, meters: Sequence[Meter], hold: Amounts) -> Refused | Wait | None:
        """Whether a call that holds ``hold`` fits; None is yes. Asks for more where it does not, or soon may not."""
        short = low = False
        for at in self.limited:
            meter = meters[at]
            self._largest[at] = max(self._largest[at], hold[at])
            left = self._granted[at] - (meter.booked - self._base[at]) - meter.reserved - hold[at]
            self.missing[at] = max(self.missing[at], -left)
            short |= left < 0
            low |= left < self._low[at]
        if not short:
            if low and self.ahead:
                self._on_short()
            return None
        refused = self.refused
        if refused is not None and refused.final:
            return refused
        self._on_short()
        return refused if refused is not None else Wait("shared_budget")
