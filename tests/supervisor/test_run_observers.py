from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from tests.kit.entries import entry

from docket.boundary.listener import LOOPBACK, bind
from docket.control.readiness import BreakerName, CapUse
from docket.ledger.events import CapExceeded, ClockStep
from docket.policy.model import Policy
from docket.policy.parse import parse
from docket.primitives.money import ZERO, Usd
from docket.sim.clock import ManualClock
from docket.supervisor.lifecycle import Phase
from docket.supervisor.run_observers import Watching

S = 1_000_000


class Accounts:
    inflight = 2
    reserved_usd: Usd = ZERO

    def cap_use(self) -> Mapping[str, CapUse]:
        return {}

    def breaker_states(self) -> Mapping[str, BreakerName]:
        return {"main": "half-open"}


class Ledger:
    size, writable, unwritten, used_bytes, intact = 5, True, 0, 2**25, True

    def free_bytes(self) -> int | None:
        return 2**30


def watching(policy: Policy, clock: ManualClock, recorded: list[ClockStep], met: CapExceeded | None = None) -> Watching:
    return Watching(
        docket="DKT-20261130-AAAAAAAAAA",
        policy=policy,
        clock=clock,
        accounts=Accounts(),
        ledger=Ledger(),
        met=lambda: met,
        record=recorded.append,
        known_models=(),
    )


def test_a_step_of_the_wall_clock_is_recorded_once() -> None:
    clock, recorded = ManualClock(), list[ClockStep]()
    looker = watching(Policy(), clock, recorded)
    for step in (0, 3_600 * S, 0):
        clock.advance(S)
        clock.step(step)
        looker.look()
    assert recorded == [ClockStep(step_us=3_600 * S)]


def test_readiness_follows_the_run_and_the_last_metrics_are_left_behind(tmp_path: Path) -> None:
    left = tmp_path / "docket.prom"
    policy = parse(f"[health]\nmetrics_file = '{left}'")

    async def main() -> None:
        looker = watching(policy, ManualClock(), [])
        assert [r["code"] for r in _reasons(looker)] == ["not_listening"]
        port = await looker.start(bind(LOOPBACK, 0, named="--health-listen", hint=""))
        looker.enter(Phase.RUNNING)
        looker.observe(entry("note"))
        url = f"http://127.0.0.1:{port}/docket/readyz"
        assert b'"ready":true' in await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=10).read())
        looker.enter(Phase.STOPPING)
        assert [r["code"] for r in _reasons(looker)] == ["stopping"]
        await looker.close()

    asyncio.run(main())
    text = left.read_text()
    assert 'docket_events_total{type="note"} 1.0' in text
    assert "docket_inflight 2.0" in text
    assert [path.name for path in tmp_path.iterdir()] == ["docket.prom"]


def test_wall_time_and_the_ledgers_ceilings_are_caps_too() -> None:
    policy = parse("[caps]\nmax_wall_seconds = 10\n[resilience]\nmax_ledger_bytes = '64 MiB'\nmax_events = 20\n")
    clock = ManualClock()
    looker = watching(policy, clock, [])
    clock.advance(4 * S)
    ratios = {name: use.ratio for name, use in looker.status().caps.items()}
    assert ratios == {"max_wall_seconds": 0.4, "max_ledger_bytes": 0.5, "max_events": 0.25}
    met = CapExceeded(cap="max_ledger_bytes", limit="67108864", observed="67000000")
    looker = watching(policy, clock, [], met)
    looker.listening = True
    looker.enter(Phase.RUNNING)
    assert [r["code"] for r in _reasons(looker)] == ["cap_spent"], "a ledger is full before its last byte is used"


def test_a_metrics_file_that_cannot_be_written_is_a_problem_and_no_crash(tmp_path: Path) -> None:
    policy = parse(f"[health]\nmetrics_file = '{tmp_path / 'none' / 'docket.prom'}'")
    problem = asyncio.run(watching(policy, ManualClock(), []).close())
    assert problem is not None
    assert "none/docket.prom: No such file or directory" in problem


def _reasons(looker: Watching) -> list[dict[str, str]]:
    from docket.control.readiness import readiness

    return readiness(looker.status())["reasons"]  # type: ignore[return-value]
