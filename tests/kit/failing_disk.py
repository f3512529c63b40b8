"""Every way in which the disk of a run can fail, crossed with what the policy says: a table of cells, each a real run.

A cell is one ``docket chaos`` with one fault on every file of the run, one ``on_write_failure`` and one cap. What was
answered is counted on the wire, at the provider and by the agent; what docket said is read as a stranger reads it.
``python -m kit.failing_disk DIRECTORY`` plays all cells and writes the page.
"""

from __future__ import annotations

import json
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docket.chaos.audit import lost_types
from docket.chaos.lab import Lab
from docket.clock import SystemClock
from docket.errors import DocketError
from docket.primitives.canonical import JsonObject
from docket.storage.documents import documents_at
from docket.storage.paths import RunDirectory
from docket.supervisor.dead_run import close
from docket.supervisor.doctor import diagnose
from docket.verify.verifier import verify

CALLS = 12
FAULTS = (
    "enospc=88KiB", "enospc=96KiB", "enospc_at=25", "enospc_at=60", "eio_at=25", "eio_at=60", "eio@0.05",
    "readonly=25", "readonly=60", "vanish=25", "vanish=60",
)  # fmt: skip
"""Early in the calls and late in them; what happens at every single operation is another test's."""
SLOW = "slow_sync=10s@0.015"
NO_START = ("enospc=40KiB", "eio_at=2", "readonly=4", "vanish=5")
"""The agent is not started where its end or its beginning has no room."""
MODES = ("continue", "refuse", "stop")
CAPS = {
    "none": "",
    "calls": "max_model_calls = 6\n",
    "usd": "max_usd = 0.00003\n",
    "tokens": "max_tokens = 120\n",
    "wall": "max_wall_seconds = 2\n",
}
STARTED = re.compile(r"^docket: DKT-\S+ run key ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Cell:
    """One row of the table."""

    fault: str
    mode: str
    cap: str
    breach: str

    @property
    def policy(self) -> str:
        caps = f'[caps]\non_breach = "{self.breach}"\ngrace_seconds = 1\n{CAPS[self.cap]}' if self.cap != "none" else ""
        return f'{caps}[resilience]\non_write_failure = "{self.mode}"\n'


def cells() -> tuple[Cell, ...]:
    """Return every cell, in a fixed order."""
    ways = [("none", "kill"), *((cap, breach) for cap in ("calls", "usd", "tokens") for breach in ("kill", "deny"))]
    found = [Cell(fault, mode, cap, breach) for fault in FAULTS for mode in MODES for cap, breach in ways]
    found += [
        Cell(fault, mode, "wall", "kill") for fault in ("enospc=96KiB", "eio@0.05", "vanish=60") for mode in MODES
    ]
    found += [Cell(SLOW, mode, "calls", breach) for mode in MODES for breach in ("kill", "deny")]
    found += [Cell(fault, mode, "none", "kill") for fault in NO_START for mode in MODES]
    return tuple(found)


@dataclass(slots=True)
class Played:
    """What became of one cell; ``wrong`` names every rule that it broke."""

    cell: Cell
    status: int | None = None
    receipt: str = "none"
    recorded: int = 0
    lost: int = 0
    forwarded: int = 0
    before: str = ""
    after: str = ""
    wrong: list[str] = field(default_factory=list)

    def need(self, holds: object, what: str) -> None:
        if not holds:
            self.wrong.append(what)


def play(cell: Cell, root: Path, seed: int = 41) -> Played:
    """Play ``cell`` in the empty directory ``root``, and hold what it left against what was counted on the wire."""
    played = Played(cell)
    with Lab(root) as lab:
        slow = {"latency_ms": 300, "times": 0} if cell.cap == "wall" else {"times": 0}
        provider = lab.provider(slow)
        agent = {"CALLS": str(CALLS), "MODEL": "gpt-4o"}
        run = lab.run(provider, faults=cell.fault, seed=seed, policy=cell.policy, agent=agent).wait()
        played.status, played.forwarded = run.status, provider.requests()
        said, evidence = run.said(), run.evidence
        played.need("never retrieved" not in said and "Traceback" not in said, "an error of docket's own was shown")
        if not STARTED.search(said):
            _not_started(played, said)
            return played
        receipt = evidence.receipt
        assert receipt is not None or played.wrong.append("no receipt anywhere") is None
        if receipt is not None:
            _receipt(played, receipt, lost_types(evidence), evidence.events, run.count(), said)
            placed = evidence.receipt_path
            played.receipt = (
                f"{receipt['kind']}, {'in place' if placed and placed.name == 'receipt.json' else 'elsewhere'}"
            )
            assert placed is not None
            inside = placed.parent == evidence.directory
            verdict = str(verify(documents_at(evidence.directory if inside else placed)).verdict)
            played.need(verdict in ("verified", "incomplete"), f"verify: {verdict}")
            whole = played.lost == 0 and receipt["kind"] == "complete" and "end" in receipt
            played.need((verdict == "verified") <= whole, "verified, and yet not whole")
        _doctor(played, evidence.directory, evidence.elsewhere)
    return played


def _not_started(played: Played, said: str) -> None:
    played.receipt = "not started"
    expected = 2 if "cannot make the run directory" in said else 125
    played.need(played.status == expected, f"not started, and exit {played.status}")
    played.need(played.forwarded == 0, "calls of a run that did not start")
    played.need("docket: " in said, "nothing said")


def _receipt(
    played: Played, receipt: JsonObject, lost: Counter[str], events: list[JsonObject], count: Any, said: str
) -> None:
    cell, types = played.cell, Counter(str(event["type"]) for event in events)
    evidence: Any = receipt["ops"]
    told = evidence["evidence"]["unwritten_events"]
    played.recorded, played.lost = types["model.request"], told
    played.need(lost.total() == told, f"{told} events lost, by type {lost.total()}")
    requests, sent = types["model.request"] + lost["model.request"], played.forwarded
    if cell.mode == "continue":
        played.need(sent <= requests, f"{sent} calls forwarded, {requests} recorded or disclosed")
    else:
        played.need(sent <= types["model.request"], f"{sent} calls forwarded, {types['model.request']} recorded")
    answered = sum(event["data"]["status"] == 200 for event in events if event["type"] == "model.response")  # type: ignore[index,call-overload]
    disclosed = answered + lost["model.response"]
    if count is not None:
        exact = cell.mode != "stop" and count["failed"] == 0
        held = count["ok"] == disclosed if exact else count["ok"] <= disclosed
        played.need(held, f"{count['ok']} answered to the agent, {disclosed} recorded or disclosed")
    session: Any = receipt["session"]
    reached = re.search(r"(max_\w+) reached: ", said)
    stopped = "stopping the agent (evidence)" in said
    own = session["exit"].get("code", 128 + session["exit"].get("signal", 0))
    audited = bool(re.search(r"^audit: \w+: the agent counted", said, re.MULTILINE))
    played.need(not audited or cell.mode == "stop", "what the agent counted differs by kind")  # cut, not refused
    expected = 1 if audited else 42 if reached else 125 if stopped else own
    played.need(played.status == expected, f"exit {played.status}, docket decided {expected}")
    played.need(bool(reached) == (session["outcome"] == "breached"), f"outcome {session['outcome']}")
    if reached:
        played.need(session.get("breach", {}).get("cap") == reached[1], f"breach {session.get('breach')}")
    played.need(receipt["limits"] and not (sent and any("No model call" in x for x in receipt["limits"])), "limits")  # type: ignore[union-attr,operator]
    if told:
        played.need(evidence["evidence"]["ledger_complete"] is False, "losses, and yet complete")
        played.need(f"{told} events are not in the ledger" in said, "the operator was not told")


def _doctor(played: Played, directory: Path, elsewhere: tuple[Path, ...]) -> None:
    played.before = diagnose(directory).state
    if (directory / "receipt.json").exists():
        played.after = played.before
        return
    run = RunDirectory.open(directory)
    try:
        close(run, SystemClock(), elsewhere=elsewhere)
    except DocketError as error:
        played.after = f"not closed: {error}"
        played.wrong.append(played.after)
        return
    finally:
        run.close()
    document = json.loads((directory / "receipt.json").read_text())
    played.after = f"{diagnose(directory).state}, {document['kind']}"
    played.need(document["kind"] == "from-memory", "the receipt that was left elsewhere was not put back")
    played.need(document["ops"]["evidence"]["ledger_complete"] is not True, "closed as complete")
    verdict = str(verify(documents_at(directory)).verdict)
    played.need(verdict in ("incomplete", "recovered"), f"after --close: {verdict}")


def sample(seed: int, size: int) -> list[Cell]:
    """Return ``size`` cells drawn by ``seed``, none of which waits for a slow disk."""
    return random.Random(seed).sample([cell for cell in cells() if cell.fault != SLOW], size)


def play_all(chosen: tuple[Cell, ...], jobs: int) -> Iterator[Played]:
    """Play ``chosen``, ``jobs`` at a time; yield what became of each, in order."""
    with tempfile.TemporaryDirectory(prefix="docket-cells-") as scratch, ThreadPoolExecutor(jobs) as pool:
        rooms = [Path(scratch) / f"{number:03d}" for number in range(len(chosen))]
        yield from pool.map(play, chosen, rooms)


def table(results: list[Played]) -> str:
    """Return the results as a table in Markdown."""
    head = (
        "| fault | on_write_failure | cap | on_breach | exit | receipt | forwarded | recorded | lost events | doctor "
        "before | after --close | wrong |\n| --- | --- | --- | --- | --: | --- | --: | --: | --: | --- | --- | --- |\n"
    )
    rows = [
        f"| `{p.cell.fault}` | {p.cell.mode} | {p.cell.cap} | {p.cell.breach} | {p.status} | {p.receipt} | "
        f"{p.forwarded} | {p.recorded} | {p.lost} | {p.before} | {p.after} | {'; '.join(p.wrong) or '-'} |\n"
        for p in results
    ]
    return head + "".join(rows)


if __name__ == "__main__":
    target, jobs = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 2
    shuffled = list(cells())  # what was played when it is stopped is a sample of all
    random.Random(1).shuffle(shuffled)
    results: list[Played] = []
    for result in play_all(tuple(shuffled), jobs):
        results = sorted([*results, result], key=lambda played: cells().index(played.cell))
        print(len(results), result.cell, result.status, result.receipt, result.wrong, flush=True)
        target.write_text(table(results))
    sys.exit(any(result.wrong for result in results))
