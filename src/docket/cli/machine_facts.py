"""What this machine offers a run: versions, kernel features, clock, price table, verifiers."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import tempfile
from importlib import metadata
from pathlib import Path

from docket import __version__
from docket.clock import Clock, SystemClock
from docket.errors import DocketError
from docket.host import host
from docket.primitives.instant import timestamp
from docket.storage.durable import SystemDisk, replace
from docket.storage.price_file import read_prices

PACKAGES = ("aiohttp", "cryptography", "orjson", "click")
VERIFIERS = (("node", "verify-js"), ("go", "verify-go"))


def facts(clock: Clock | None = None) -> dict[str, str]:
    """Name and finding, in the order in which they are shown."""
    clock = clock or SystemClock()
    machine = host()
    return {
        "docket": f"{__version__}, Python {platform.python_version()}",
        "packages": ", ".join(f"{name} {metadata.version(name)}" for name in PACKAGES),
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "process tree": "child subreaper" if machine.subreaper else "process groups only: a session leader can escape",
        "durable files": _durable(),
        "core dumps": "allowed, docket forbids its own" if any(resource.getrlimit(resource.RLIMIT_CORE)) else "off",
        "clock": f"{timestamp(clock.unix_us())}, monotonic {clock.monotonic_us()} us",
        "prices": _prices(clock),
        "verifiers": ", ".join(f"{directory} ({_found(tool)})" for tool, directory in VERIFIERS),
    }


def _durable() -> str:
    """Whether the working directory's file system takes what the ledger asks of it."""
    disk = SystemDisk()
    try:
        with tempfile.TemporaryDirectory(prefix=".docket-doctor.", dir=".") as name:
            fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                replace(disk, "probe", b"probe\n", fd)
                free = disk.free_bytes(fd)
            finally:
                os.close(fd)
    except OSError as error:
        return f"cannot write here: {error.strerror}"
    return f"write, sync and rename work in {Path.cwd()}, {free // 2**20} MiB free"


def _prices(clock: Clock) -> str:
    try:
        table = read_prices(None, timestamp(clock.unix_us())[:10])
    except DocketError as error:
        return str(error)
    return f"{table.source}, of {table.date}"


def _found(tool: str) -> str:
    return f"{tool} found" if shutil.which(tool) else f"{tool} not found"
