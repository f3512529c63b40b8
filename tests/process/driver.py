"""The supervisor without ledger and boundary: the process package as ``docket run`` uses it, for tests of that package.

``python -m tests.process.driver REPORT GRACE COMMAND...`` says ``docket PID guardian PID agent PID`` on stderr, writes
what it learnt to REPORT at the end, and exits as docket would.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from docket.primitives import canonical
from docket.process.outcome import ExecFailed
from docket.process.signals import SignalRelay
from docket.process.supervision import Guardian


async def supervise(guardian: Guardian, report: Path, grace: float, argv: list[str]) -> int:
    """One run: its exit status is returned, everything else written down."""
    with SignalRelay(guardian, grace_seconds=grace) as relay:
        started = await guardian.spawn(argv, os.environ, os.getcwd())
        if isinstance(started, ExecFailed):
            await guardian.close()
            return started.status
        sys.stderr.write(f"docket {os.getpid()} guardian {guardian.pid} agent {started.pid}\n")
        sys.stderr.flush()
        status = await guardian.exited()
        reaped = await guardian.reap(grace)
        await guardian.close()
        found = {
            "code": status.code,
            "signal": status.signal,
            "core": status.core_dumped,
            "ending": relay.ending.name if relay.ending else None,
            "orphans": [{"pid": o.pid, "ended": o.ended, "command": o.command} for o in reaped.orphans],
            "unnamed": reaped.unnamed,
            "lost": reaped.guardian_lost,
        }
        publish(report, canonical.encode(found))
    return status.shell_status


def publish(report: Path, data: bytes) -> None:
    """Whole or not at all: the test waits for the name."""
    temporary = report.with_suffix(".new")
    temporary.write_bytes(data)
    temporary.rename(report)


def main() -> int:
    """Start the guardian before anything else exists."""
    report, grace, *argv = sys.argv[1:]
    guardian = Guardian.start()
    return asyncio.run(supervise(guardian, Path(report), float(grace), argv))


if __name__ == "__main__":
    sys.exit(main())
