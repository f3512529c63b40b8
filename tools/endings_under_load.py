"""Run the ends table 20 times in a row while a second process keeps every core busy, and write down what came of it.

``python -m tools.endings_under_load [--times N] [--out docs/measurements]``. Every test runs N times, one after the
other; the first failure ends it. This module is also the pytest plugin that repeats the tests.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

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
TIMES = "DOCKET_TEST_TIMES"
TODAY = datetime.datetime.fromtimestamp(SystemClock().unix_us() / 1e6, datetime.UTC).date()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat each test."""
    metafunc.fixturenames.append("_round")
    metafunc.parametrize("_round", range(int(os.environ[TIMES])))


def repeated(times: int) -> tuple[float, str, str]:
    """Seconds, the last line and all output of one session in which each test runs ``times`` times."""
    clock = SystemClock()
    command = [sys.executable, "-m", "pytest", *TESTS, "-m", "not long", "-q", "-x", "-n", "4", "--timeout", "900"]
    command += ["-p", "no:cacheprovider", "-p", "tools.endings_under_load"]
    started = clock.monotonic_us()
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {TIMES: str(times)})
    return (clock.monotonic_us() - started) / 1e6, done.stdout.strip().splitlines()[-1].strip("= "), done.stdout


def report(seconds: float, line: str, times: int, load: tuple[float, ...]) -> str:
    """The page, in Markdown."""
    return f"""# The ends table, {times} times in a row under load

Result: {line} ({seconds:.0f} s in all). Command: `python -m tools.endings_under_load --times {times}`, {TODAY},
{os.cpu_count()} cores, {platform.system()} {platform.release()}, CPython {platform.python_version()}.
Beside the tests, one process for each core runs an endless loop; the machine was shared besides. Load at the end:
{load[0]:.1f}, {load[1]:.1f}, {load[2]:.1f}.

Every test of the ends table and of job control on a pseudo-terminal ran {times} times, one after the other, each with a
real process: codes, signals, exec failures, caps obeyed and ignored, refusals, signals to docket, the guardian's death,
caps on time through stops and clock steps, a grandchild in another session (B43), an agent that keeps calling after
docket's death (B48).

Not shown: a real container engine, real uninterruptible sleep (a frozen group stands in for it), macOS.
"""


def main() -> int:
    """Run, write, and say by the exit status whether everything was green."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    load = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(os.cpu_count() or 1)]
    try:
        seconds, line, output = repeated(options.times)
    finally:
        for process in load:
            process.kill()
            process.wait()
    text = report(seconds, line, options.times, os.getloadavg())
    green = "passed" in line and "failed" not in line and "error" not in line
    if options.out is not None and green:
        (options.out / f"endings-{TODAY}.md").write_text(text)
    print(text if green else output)
    return int(not green)


if __name__ == "__main__":
    sys.exit(main())
