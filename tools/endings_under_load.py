"""Run the ends table 20 times in a row while a second process keeps every core busy, and write down what came of it.

``python -m tools.endings_under_load [--times N] [--out docs/measurements]``. Stops at the first round that is not
green.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

from docket.clock import SystemClock

TESTS = [
    "tests/process/test_status.py",
    "tests/process/test_terminal.py",
    "tests/process/test_tree.py::test_a_grandchild_in_another_session_goes_with_the_run",
    "tests/e2e/test_ending.py",
    "tests/e2e/test_clock_steps.py",
    "tests/e2e/test_tree.py::test_an_agent_that_keeps_calling_is_gone_with_docket",
]
"""The ends table with the case kinds B26, B43, B45, B46 and B48."""
BUSY = "while True: pass"


def rounds(times: int) -> list[tuple[float, str]]:
    """Seconds and the last line of each round; the first that fails is the last."""
    clock, found = SystemClock(), []
    command = [sys.executable, "-m", "pytest", *TESTS, "-m", "not long", "-q", "-n", "4", "-p", "no:cacheprovider"]
    for number in range(1, times + 1):
        started = clock.monotonic_us()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = (clock.monotonic_us() - started) / 1e6
        found.append((seconds, done.stdout.strip().splitlines()[-1].strip("= ")))
        print(f"round {number}: {found[-1][1]}", flush=True)
        if done.returncode != 0:
            print(done.stdout)
            break
    return found


def report(found: list[tuple[float, str]], times: int, load: tuple[float, ...]) -> str:
    """The page, in Markdown."""
    green = sum(not re.search(r"failed|error", line) for _, line in found)
    today = datetime.datetime.fromtimestamp(SystemClock().unix_us() / 1e6, datetime.UTC).date()
    rows = "\n".join(f"| {number} | {seconds:.0f} | {line} |" for number, (seconds, line) in enumerate(found, 1))
    return f"""# The ends table, {times} times in a row under load

{green} of {len(found)} rounds green. Command: `python -m tools.endings_under_load --times {times}`, {today},
{os.cpu_count()} cores, {platform.system()} {platform.release()}, CPython {platform.python_version()}.
Beside the tests, one process for each core runs an endless loop; the machine was shared besides. Load at the end:
{load[0]:.1f}, {load[1]:.1f}, {load[2]:.1f}.

Each round is the ends table, every row with a real process, and job control on a pseudo-terminal: codes, signals, exec
failures, caps obeyed and ignored, refusals, signals to docket, the guardian's death, caps on time through stops and
clock steps, a grandchild in another session (B43), an agent that keeps calling after docket's death (B48).

| round | seconds | result |
| ---: | ---: | --- |
{rows}

Not shown: a real container engine, real uninterruptible sleep (a frozen group stands in for it), macOS.
"""


def main() -> int:
    """Run, write, and say by the exit status whether all rounds were green."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    load = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(os.cpu_count() or 1)]
    try:
        found = rounds(options.times)
    finally:
        for process in load:
            process.kill()
            process.wait()
    text = report(found, options.times, os.getloadavg())
    if options.out is not None:
        today = datetime.datetime.fromtimestamp(SystemClock().unix_us() / 1e6, datetime.UTC).date()
        (options.out / f"endings-{today}.md").write_text(text)
    print(text)
    return int(len(found) != options.times or "failed" in found[-1][1])


if __name__ == "__main__":
    sys.exit(main())
