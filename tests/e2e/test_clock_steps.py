"""A cap on time holds while the wall clock steps by an hour, both ways: a preloaded clock does that mid-run."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kit.installed import Installed
from kit.supervised import supervised

CAP_SECONDS = 2
PRELOADED = r"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
/* Once the agent has made the file, the wall clock is off by DOCKET_TEST_STEP seconds. */
int clock_gettime(clockid_t id, struct timespec *now)
{
    int status = syscall(SYS_clock_gettime, id, now);
    if (status == 0 && id == CLOCK_REALTIME && access(getenv("DOCKET_TEST_STEPPED"), F_OK) == 0)
        now->tv_sec += atoll(getenv("DOCKET_TEST_STEP"));
    return status;
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler for the preloaded clock")
@pytest.mark.parametrize("step", [-3600, 3600])
def test_the_run_ends_at_its_cap_and_the_step_is_recorded(step: int, installed: Installed, tmp_path: Path) -> None:
    source, library = tmp_path / "clock.c", tmp_path / "clock.so"
    source.write_text(PRELOADED)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    stepped = tmp_path / "stepped"
    env = {"LD_PRELOAD": str(library), "DOCKET_TEST_STEP": str(step), "DOCKET_TEST_STEPPED": str(stepped)}
    flags = ["--max-wall-clock", str(CAP_SECONDS)]
    with supervised(
        installed, flags, f"touch {stepped}; exec sleep 60", env=env, toml="[caps]\ngrace_seconds = 0.3\n"
    ) as run:
        assert run.finish(20)[0] == 42
    events = installed.events()
    elapsed = [event["elapsed_us"] for event in events]
    assert elapsed == sorted(elapsed)
    (breach,) = installed.events("cap.exceeded")
    assert breach["data"]["cap"] == "max_wall_seconds"
    assert CAP_SECONDS <= float(breach["data"]["observed"]) < CAP_SECONDS + 0.5
    (recorded,) = installed.events("x-docket.clock-step")
    assert abs(recorded["data"]["step_us"] - step * 1_000_000) < 1_000_000
    assert installed.verdict()["verdict"] == "verified"
