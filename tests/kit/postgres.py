"""A real PostgreSQL server for the tests of shared budgets: in a directory of its own, on a free port."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


def binaries() -> Path | None:
    """Where the server's programs are, if this machine has them."""
    found = shutil.which("pg_ctl")
    places = [path.parent for path in sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), reverse=True)]
    if found is not None:
        places.append(Path(found).resolve().parent)
    return next((place for place in places if (place / "createdb").exists() and (place / "initdb").exists()), None)


@dataclass
class Server:
    """A server that listens on loopback."""

    bin: Path
    data: Path
    port: int
    user: str

    @property
    def url(self) -> str:
        return f"postgresql://{self.user}@127.0.0.1:{self.port}/postgres"

    def database(self, name: str) -> str:
        """A new database; its address."""
        self._run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", self.user, name)
        return f"postgresql://{self.user}@127.0.0.1:{self.port}/{name}"

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
        self._run("pg_ctl", "-D", str(self.data), "-w", "-s", "-l", str(self.data / "log"), "-o", options, "start")

    def stop(self, mode: str = "immediate") -> None:
        self._run("pg_ctl", "-D", str(self.data), "-w", "-s", "-m", mode, "stop")

    def _run(self, program: str, *arguments: str) -> None:
        account = pwd.getpwnam(self.user)
        other = os.getuid() != account.pw_uid
        subprocess.run(
            [str(self.bin / program), *arguments],
            check=True,
            cwd=self.data,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            user=account.pw_uid if other else None,
            group=account.pw_gid if other else None,
            extra_groups=[] if other else None,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
            timeout=60,
        )


@contextmanager
def server(directory: Path) -> Iterator[Server]:
    """A server in ``directory``, which must be reachable for its user; the superuser cannot run one."""
    found = binaries()
    assert found is not None
    user = pwd.getpwuid(os.getuid()).pw_name if os.getuid() else "postgres"
    account = pwd.getpwnam(user)
    directory.mkdir(parents=True, exist_ok=True)
    os.chown(directory, account.pw_uid, account.pw_gid)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    made = Server(found, directory, port, user)
    made._run("initdb", "-D", str(directory), "-U", user, "-A", "trust", "-E", "UTF8", "--no-sync")
    made.start()
    try:
        yield made
    finally:
        if (directory / "postmaster.pid").exists():
            made.stop()
