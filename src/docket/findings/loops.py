"""Rules on what is done again and again: the same request, a call that fails, a tool that fails."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import ClassVar

from docket.findings.model import Basis, Cost, Finding, Severity, named
from docket.findings.rule import MAX_GROUPS, Call, Rule, hung_up
from docket.ledger.chain import Entry
from docket.ledger.events import ModelResponse, ToolResult
from docket.primitives.canonical import Json

MAX_REQUESTS = 4096
"""Different requests that are remembered, the newest: a loop comes back sooner."""


class _Repeated:
    __slots__ = ("basis", "cost", "last_end", "model")

    def __init__(self, model: str, last_end: int) -> None:
        self.model = model
        self.last_end = last_end
        self.basis = Basis()
        self.cost = Cost()


class RunawayLoop(Rule):
    """The same bytes were sent again after they had been answered. Copies sent side by side are no loop."""

    name: ClassVar[str] = "runaway-loop"
    severity: ClassVar[Severity] = "warning"
    remedy: ClassVar[str] = (
        "Give the agent a way to notice that it makes no progress, and cap what a run may spend (caps.max_usd, "
        "caps.max_model_calls); where the repetition is meant, switch the response cache on ([cache])."
    )

    def __init__(self, thresholds: Mapping[str, int]) -> None:
        super().__init__(thresholds)
        self._seen: OrderedDict[tuple[str, str, str], _Repeated] = OrderedDict()
        self._loops: dict[tuple[str, str, str], _Repeated] = {}
        self._answered = 0
        self._undigested = 0

    def call(self, call: Call) -> None:
        if not isinstance(call.end, ModelResponse):
            return
        self._answered += 1
        digest = call.request.private.get("request_sha256")
        if not isinstance(digest, str):
            self._undigested += 1
            return
        key = (call.request.upstream, call.request.endpoint, digest)
        seen = self._loops.get(key) or self._seen.get(key)
        if seen is None:
            self._seen[key] = _Repeated(call.end.model, call.end_seq)
            if len(self._seen) > MAX_REQUESTS:
                self._seen.popitem(last=False)
            return
        if call.request_seq < seen.last_end:
            return
        seen.last_end = call.end_seq
        seen.basis.add(call.request_seq)
        seen.cost.add(call.end)
        if key in self._seen:
            self._seen.move_to_end(key)
            if seen.basis.count >= self.limits["repeats"] and len(self._loops) < MAX_GROUPS:
                self._loops[key] = self._seen.pop(key)

    def findings(self) -> Iterator[Finding]:
        for seen in sorted(self._loops.values(), key=lambda seen: -seen.basis.count):
            yield self.found(
                "deterministic",
                f"{named(seen.model)} was sent one and the same request {seen.basis.count:,} times after it had "
                "answered it.",
                seen.basis.seqs,
                seen.basis.count,
                seen.cost.impact(),
            )

    def needs(self) -> str | None:
        if self._undigested:
            return (
                f"{self._undigested} of {self._answered} answered requests have no digest here: it is withheld, or "
                "the request went out before it was whole. The ledger as docket wrote it shows more."
            )
        if self._answered:
            return (
                "Only requests of the same bytes are seen; one that grows by a line each time would need their bodies "
                "([evidence] record_requests), which this rule does not read."
            )
        return None


class _Streak:
    __slots__ = ("at_us", "basis", "cost", "last_end")

    def __init__(self, at_us: int) -> None:
        self.at_us = at_us
        self.last_end = -1
        self.basis = Basis()
        self.cost = Cost()


class RetryStorm(Rule):
    """An upstream failed, and was tried again and again. Calls that failed side by side count once."""

    name: ClassVar[str] = "retry-storm"
    severity: ClassVar[Severity] = "warning"
    remedy: ClassVar[str] = (
        "Let the client wait longer after each failure and give up after a few; docket's breaker stops such calls for "
        "everyone ([resilience])."
    )

    def __init__(self, thresholds: Mapping[str, int]) -> None:
        super().__init__(thresholds)
        self._running: dict[str, _Streak] = {}
        self._storms: dict[str, tuple[Basis, Cost, int]] = {}

    def call(self, call: Call) -> None:
        upstream = call.request.upstream
        streak = self._running.get(upstream)
        if isinstance(call.end, ModelResponse):
            if streak is not None:
                self._settle(upstream, self._running.pop(upstream))
            return
        if call.end.reason == "lost" or hung_up(call):  # no fault of the upstream
            return
        if streak is not None and call.begun_us - streak.at_us > self.limits["seconds"] * 1_000_000:
            self._settle(upstream, streak)
            streak = None
        if streak is None:
            if len(self._running) >= MAX_GROUPS:
                return
            streak = self._running[upstream] = _Streak(call.ended_us)
        elif call.request_seq < streak.last_end:
            return
        else:
            streak.cost.add(call.end)
        streak.at_us, streak.last_end = call.ended_us, call.end_seq
        streak.basis.add(call.end_seq)

    def findings(self) -> Iterator[Finding]:
        storms = dict(self._storms)
        for upstream, streak in self._running.items():
            self._keep(storms, upstream, streak)
        for upstream, (basis, cost, longest) in sorted(storms.items()):
            yield self.found(
                "deterministic",
                f"Calls to {named(upstream)} failed one after the other, up to {longest:,} times without a success "
                f"between ({basis.count:,} calls in all). The figure is of the calls after the first of each series.",
                basis.seqs,
                basis.count,
                cost.impact(),
            )

    def _settle(self, upstream: str, streak: _Streak) -> None:
        self._keep(self._storms, upstream, streak)

    def _keep(self, storms: dict[str, tuple[Basis, Cost, int]], upstream: str, streak: _Streak) -> None:
        length = streak.basis.count
        if length < self.limits["calls"] or (upstream not in storms and len(storms) >= MAX_GROUPS):
            return
        basis, cost, longest = Basis(), Cost(), length
        if upstream in storms:
            before, spent, was = storms[upstream]
            basis.add_all(before)
            cost.add_all(spent)
            longest = max(was, length)
        basis.add_all(streak.basis)
        cost.add_all(streak.cost)
        storms[upstream] = (basis, cost, longest)


class ToolFailureLoop(Rule):
    """One tool failed again and again, by the word of the agent; in between it was asked what to do next."""

    name: ClassVar[str] = "tool-failure-loop"
    severity: ClassVar[Severity] = "warning"
    remedy: ClassVar[str] = (
        "Look at these results (docket show RUN SEQ): a tool that keeps failing needs a right call, a right or an end. "
        "Let the agent stop after a few failures of one tool."
    )
    types: ClassVar[tuple[str, ...]] = (ToolResult.type,)

    def __init__(self, thresholds: Mapping[str, int]) -> None:
        super().__init__(thresholds)
        self._spent = Cost()
        self._calls = 0
        self._results = 0
        self._unclear = 0
        self._running: dict[str, tuple[Basis, Cost]] = {}
        self._loops: list[tuple[Basis, Cost]] = []

    def call(self, call: Call) -> None:
        self._calls += 1
        self._spent.add(call.end)

    def event(self, entry: Entry) -> None:
        self._results += 1
        said = entry.event.private.get("said")
        failed = _failed(said)
        if failed is None:
            self._unclear += 1
            return
        tool = _tool(said)
        if not failed:
            self._settle(tool)
            return
        if tool not in self._running and len(self._running) < MAX_GROUPS:
            self._running[tool] = (Basis(), self._spent.copy())
        if tool in self._running:
            self._running[tool][0].add(entry.seq)

    def findings(self) -> Iterator[Finding]:
        for basis, cost in [*self._loops, *(self._ended(tool) for tool in self._running)]:
            if basis.count >= self.limits["failures"]:
                yield self.found(
                    "heuristic",
                    f"One tool failed {basis.count:,} times without a success, as the agent says. The figure is of all "
                    "model calls from the first failure on, until it worked or the run ended.",
                    basis.seqs,
                    basis.count,
                    cost.bound(),
                )

    def needs(self) -> str | None:
        if self._calls and not self._results:
            return (
                "The agent reported no tool results; with them (POST $DOCKET_EVENTS_URL, type tool.result, is_error) "
                "or with bodies that somebody reads, failing tools would be seen."
            )
        if self._unclear:
            return (
                f"{self._unclear} of {self._results} tool results do not say whether the tool failed (is_error, error, "
                "ok, status or exit_code), or are withheld."
            )
        return None

    def _ended(self, tool: str) -> tuple[Basis, Cost]:
        basis, before = self._running[tool]
        return basis, self._spent.since(before)

    def _settle(self, tool: str) -> None:
        if tool in self._running:
            basis, cost = self._ended(tool)
            del self._running[tool]
            if basis.count >= self.limits["failures"] and len(self._loops) < MAX_GROUPS:
                self._loops.append((basis, cost))


def _tool(said: Json) -> str:
    name = next((said[member] for member in ("name", "tool") if member in said), "") if isinstance(said, dict) else ""
    return name[:200] if isinstance(name, str) else ""


def _failed(said: Json) -> bool | None:
    """Return whether a tool's result says that it failed; None where it says neither."""
    if not isinstance(said, dict):
        return None
    for member, failure in (("is_error", True), ("ok", False), ("success", False)):
        if isinstance(said.get(member), bool):
            return said[member] is failure
    if "error" in said:
        return bool(said["error"])
    code = said.get("exit_code")
    if type(code) is int:
        return code != 0
    status = said.get("status")
    if isinstance(status, str):
        return {"error": True, "failed": True, "failure": True, "ok": False, "success": False}.get(status.lower())
    return None
