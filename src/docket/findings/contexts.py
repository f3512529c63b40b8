"""Rules on what is sent along: context that no cache keeps, and context that is large for what comes back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from docket.findings.model import UNKNOWN, Basis, Cost, Finding, Impact, Severity, named
from docket.findings.rule import MAX_GROUPS, Call, Rule
from docket.ledger.usage import Item
from docket.primitives.money import Usd


class _Conversation:
    __slots__ = (
        "basis",
        "context",
        "missed",
        "pico",
        "read",
        "read_pico",
        "row",
        "row_pico",
        "surcharge",
        "surcharge_bound",
        "unpriced",
        "writes",
        "written",
    )

    def __init__(self) -> None:
        self.context = 0
        """Tokens of the call before."""
        self.row = Basis()
        """Calls in a row so far that sent again what the call before had sent, and read no cache."""
        self.row_pico: list[int] = []
        self.missed = 0
        self.basis = Basis()
        self.pico = 0
        self.writes = Basis()
        self.written = 0
        self.read = 0
        self.surcharge = 0
        self.surcharge_bound = False
        self.unpriced = False
        self.read_pico: int | None = None


class CacheMiss(Rule):
    """A growing context was sent whole each time; or it was written to the provider's cache and never read there."""

    name: ClassVar[str] = "cache-miss"
    severity: ClassVar[Severity] = "warning"
    remedy: ClassVar[str] = (
        "Keep the beginning of the prompt the same from call to call (no time, no random order in it) and switch the "
        "provider's prompt cache on; leave it off where nothing is sent twice."
    )

    def __init__(self, thresholds: Mapping[str, int]) -> None:
        super().__init__(thresholds)
        self._models: dict[tuple[str, str], _Conversation] = {}
        self._unpriced = 0

    def call(self, call: Call) -> None:
        if not call.metered or not call.context:
            return
        state = self._models.get(call.key)
        if state is None:
            if len(self._models) >= MAX_GROUPS:
                return
            state = self._models[call.key] = _Conversation()
        read = written = 0
        fresh: Item | None = None
        for item in call.items:
            if item.kind == "input" and item.model is None:
                fresh = item
            elif item.kind.startswith("cache_write"):
                written += item.quantity
            elif item.kind.startswith("cache_read"):
                read += item.quantity
        state.read += read
        if written:
            self._write(state, call, fresh, written)
        self._grow(state, call, fresh, cached=bool(read or written))
        state.context = call.context

    def findings(self) -> Iterator[Finding]:
        for (_, model), state in self._models.items():
            if state.basis.count:
                yield self.found(
                    "heuristic",
                    f"{state.basis.count:,} calls to {named(model)} sent a context that grew from call to call, and "
                    f"none of it was read from a cache: up to {state.missed:,} tokens were paid for anew. Whether they "
                    "were the same tokens, only the bodies show.",
                    state.basis.seqs,
                    state.basis.count,
                    UNKNOWN if state.unpriced else Impact("at-most", Usd(state.pico)),
                )
            if self._wasted(state):
                yield self.found(
                    "deterministic",
                    f"{state.writes.count:,} calls to {named(model)} wrote {state.written:,} tokens into the "
                    "provider's cache, and no call read any of it. The figure is what writing cost more than sending.",
                    state.writes.seqs,
                    state.writes.count,
                    Impact("at-most" if state.surcharge_bound else "exact", Usd(state.surcharge)),
                )

    def needs(self) -> str | None:
        if self._unpriced:
            return (
                f"{self._unpriced} calls in a row sent a growing context without a price (a local model, budget mode "
                "quota, an unknown name): whether a cache would save anything is not known."
            )
        return None

    def _wasted(self, state: _Conversation) -> bool:
        enough = state.writes.count >= self.limits["calls"] and state.written >= self.limits["tokens"]
        return enough and not state.read and state.surcharge > 0

    def _write(self, state: _Conversation, call: Call, fresh: Item | None, written: int) -> None:
        state.writes.add(call.end_seq)
        state.written += written
        plain = fresh.unit_usd if fresh is not None else None
        for item in call.items:
            if item.kind.startswith("cache_write") and item.unit_usd is not None and item.per is not None:
                state.surcharge += item.unit_usd.pico_of(item.quantity, item.per)
                if plain is not None and fresh is not None and fresh.per == item.per:
                    state.surcharge -= plain.pico_of(item.quantity, item.per)
                else:
                    state.surcharge_bound = True

    def _grow(self, state: _Conversation, call: Call, fresh: Item | None, *, cached: bool) -> None:
        again = state.context
        goes_on = (
            not cached and fresh is not None and again >= self.limits["tokens"] and again < call.context <= 2 * again
        )
        if not goes_on or fresh is None:
            if state.row.count:
                state.row, state.row_pico = Basis(), []
            return
        if fresh.unit_usd is None or fresh.per is None:
            self._unpriced += 1
            return
        if not fresh.unit_usd:
            return
        shared = min(again, fresh.quantity)
        state.row.add(call.end_seq)
        needed = self.limits["calls"]
        if state.row.count <= needed:
            state.row_pico.append(fresh.unit_usd.pico_of(shared, fresh.per))
            state.row_pico.append(shared)
        if state.row.count == needed:
            state.basis.add_all(state.row)
            state.pico += sum(state.row_pico[::2])
            state.missed += sum(state.row_pico[1::2])
        elif state.row.count > needed:
            state.basis.add(call.end_seq)
            state.pico += fresh.unit_usd.pico_of(shared, fresh.per)
            state.missed += shared


class _Fat:
    __slots__ = ("basis", "cost", "tokens")

    def __init__(self) -> None:
        self.basis = Basis()
        self.tokens = 0
        self.cost = Cost()


class FatContext(Rule):
    """Very much was sent, and very little came back."""

    name: ClassVar[str] = "fat-context"
    severity: ClassVar[Severity] = "info"
    remedy: ClassVar[str] = (
        "Send what the step needs: summarise or drop old turns and long tool output, search instead of attaching whole "
        "files, start a fresh conversation for a fresh task."
    )

    def __init__(self, thresholds: Mapping[str, int]) -> None:
        super().__init__(thresholds)
        self._models: dict[tuple[str, str], _Fat] = {}

    def call(self, call: Call) -> None:
        if not call.metered or call.context < self.limits["tokens"] or not call.output:
            return
        if call.output * 100 >= call.context * self.limits["answer-percent"]:
            return
        if call.key not in self._models and len(self._models) >= MAX_GROUPS:
            return
        fat = self._models.setdefault(call.key, _Fat())
        fat.basis.add(call.end_seq)
        fat.tokens += call.context
        fat.cost.add(call.end)

    def findings(self) -> Iterator[Finding]:
        for (_, model), fat in self._models.items():
            if fat.basis.count >= self.limits["calls"]:
                yield self.found(
                    "heuristic",
                    f"{fat.basis.count:,} calls to {named(model)} sent {fat.tokens // fat.basis.count:,} tokens each "
                    f"on average and got less than {self.limits['answer-percent']} % of that back. What of it was "
                    "needed, only the bodies show.",
                    fat.basis.seqs,
                    fat.basis.count,
                    fat.cost.bound(),
                )
