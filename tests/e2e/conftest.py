"""Fixtures of the end-to-end tests: nothing between docket, provider and agent is replaced."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kit.installed import Installed, Provider, install_wheel


@pytest.fixture(scope="session")
def wheel_environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the built wheel, made once for all workers; dependencies come from the tests' own."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    target = shared / "installed"
    with (shared / "installed.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (target / "ready").exists():
            install_wheel(shared, target)
    return target


@pytest.fixture
def installed(wheel_environment: Path, tmp_path: Path) -> Installed:
    return Installed(wheel_environment / "bin/python", wheel_environment / "bin/docket", tmp_path)


@pytest.fixture
def provider(wheel_environment: Path) -> Iterator[Callable[..., Provider]]:
    """Starts scripted providers; they end with the test."""
    processes: list[subprocess.Popen[str]] = []

    def start(*flags: str) -> Provider:
        argv = [str(wheel_environment / "bin/python"), "-m", "docket.sim.upstream", *flags]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
        processes.append(process)
        assert process.stdout is not None
        return Provider(process.stdout.readline().strip())

    yield start
    for process in processes:
        process.terminate()
        process.communicate()
