"""``[fleet]``: budgets that a run shares with others. docs/fleet.md tells it."""

from __future__ import annotations

from dataclasses import dataclass

from docket.policy.keys import key
from docket.policy.kinds import Amount, Optional, Text, Texts, show
from docket.primitives.money import Usd


@dataclass(frozen=True)
class StoreFailure:
    """``refuse``, or ``allow:USD``."""

    expects: str = '"refuse" or an allowance in US dollars such as "allow:0.50"'

    def read(self, value: object) -> str:
        word, _, amount = value.partition(":") if isinstance(value, str) else ("", "", "")
        if value != "refuse":
            try:
                if word != "allow":
                    raise ValueError
                Amount().read_text(amount)
            except ValueError:
                raise ValueError(f"{show(value)} is not accepted; must be {self.expects}") from None
        return str(value)

    read_text = read


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Budgets that this run shares with other runs: it takes a part before it spends (`docket budget`)."""

    budgets: tuple[str, ...] = key(
        Texts(),
        "Names of budgets in the store; the run is charged to each and to all their parents. --budget adds to them.",
        default=(),
        example='["team"]',
    )
    store: str | None = key(
        Optional(Text()),
        "Where they are: sqlite:///path or postgresql://host/database. DOCKET_STORE and --store win over it; without"
        " any of them a file in the user's data directory.",
        default=None,
        private=True,
        example='"sqlite:///var/lib/docket/fleet.sqlite"',
    )
    on_store_failure: str = key(
        StoreFailure(),
        "While the store is away and what the run has taken is spent: refuse calls for now, or allow so many dollars,"
        " recorded and charged later.",
        default="refuse",
        example='"allow:0.50"',
    )
    limits: frozenset[str] = frozenset()
    """What the budgets limit, of usd, tokens and calls: known once the store was asked."""

    @property
    def allowance(self) -> Usd | None:
        """What may be spent while the store is away."""
        return None if self.on_store_failure == "refuse" else Amount().read_text(self.on_store_failure[6:])
