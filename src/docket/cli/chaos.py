"""``docket chaos``: a run in which provider, network, disk or clock misbehave by plan, audited afterwards."""

from __future__ import annotations

import importlib
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from docket.cli import exit_codes, output
from docket.cli.run import command as run_command
from docket.cli.run import request_of

if TYPE_CHECKING:
    from docket.supervisor.request import RunRequest

MAX_SEED = 2**53 - 1
"""Largest integer that the ledger can hold."""


def drill(faults: str, seed: int, **options: Any) -> int:
    """Run COMMAND as `docket run` does, while faults are injected: a drill.

    The boundary misbehaves with toxiproxy's words (latency, jitter, bandwidth, slow_close, timeout, reset_peer, slicer,
    limit_data) and a provider's (status, error_event, drop, corrupt, duplicate); the disk with enospc, eio, slow_sync,
    lying_sync, enospc_at, eio_at, readonly, vanish; the clock with clock_step, clock_freeze.
    `docket chaos --faults help` lists them.

    \b
      docket chaos --faults 'status=529@0.2,latency=300ms@0.5' --seed 7 -- python agent.py
      docket chaos --faults enospc=256KiB -- python -m docket.sim.agent

    Every injection is an event of the ledger, and the receipt says that the run was a drill. The same seed and an agent
    that makes one call at a time give the same story. An agent that writes {"sent", "ok", "refused", "failed"} to the
    file named by DOCKET_CHAOS_COUNT has its count compared with the ledger.

    Exit status: as of `docket run`; 1 where the agent's count and the ledger disagree.
    """
    from docket.chaos.drill import Drill
    from docket.sim.faults import Plan, parse, vocabulary

    if faults == "help":
        output.result(vocabulary())
        return exit_codes.OK
    plan = Plan(parse(faults), seed)
    request = request_of(**options)
    supervisor = importlib.import_module("docket.supervisor.run")
    from docket.chaos.audit import COUNT_VARIABLE

    with tempfile.TemporaryDirectory(prefix="docket-chaos-") as scratch:
        count = Path(request.environ.get(COUNT_VARIABLE, f"{scratch}/count.json"))
        request = replace(request, environ={**request.environ, COUNT_VARIABLE: str(count)})
        status = int(supervisor.run(request, ports=Drill(plan, faults).ports()))
        return status if _audited(request, count) else exit_codes.FAILED


def _audited(request: RunRequest, count: Path) -> bool:
    """Hold the ledger against what the agent counted; say what was found."""
    from docket.chaos.audit import agents_count, audit
    from docket.chaos.evidence import Evidence
    from docket.supervisor.second_place import places

    directory = (request.docket_dir / "latest").resolve()
    counted = agents_count(count)
    if counted is None:
        output.remark("audit: skipped, the agent left no count of its own")
        return True
    elsewhere = places(request.fallback_dir, request.environ)
    found = audit(Evidence(directory, directory / "none", elsewhere), counted)
    for one in found:
        if not one.agrees:
            output.remark(f"audit: {one.what}: the agent counted {one.agent}, the ledger has {one.ledger}")
    if all(one.agrees for one in found):
        output.remark(
            "audit: the ledger has what the agent counted: " + ", ".join(f"{one.what} {one.ledger}" for one in found)
        )
        return True
    return False


command = click.Command(
    "chaos",
    callback=drill,
    help=drill.__doc__,
    context_settings={"allow_interspersed_args": False},
    params=[
        click.Option(["--faults"], metavar="SPEC", required=True, help="NAME[=MAGNITUDE][@PROBABILITY],... or help."),
        click.Option(
            ["--seed"], type=click.IntRange(0, MAX_SEED), default=0, show_default=True, help="Replays a drill."
        ),
        *run_command.params,
    ],
)
