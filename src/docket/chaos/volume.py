"""A small volume of its own for one drill: a tmpfs in namespaces of its own, gone with the processes in them.

Owns the command line that makes it. What is left on it is copied out before it goes, so that a drill reads it like any
other; nothing outside the namespace ever sees the mount.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

TRY_SECONDS = 30.0
_ALONE = """
mount -t tmpfs -o size="$1" tmpfs "$2" || exit 99
into=$3; from=$2; shift 3
"$@"; status=$?
cp -a "$from"/. "$into"/ || exit 98
exit $status
"""


def on_volume(command: Sequence[str], *, size: int, mount: Path, into: Path) -> list[str]:
    """Return ``command`` to be run with a volume of ``size`` bytes at ``mount``; what it left is copied ``into``.

    Both directories exist. The exit status is the command's; 99 where the volume could not be made, 98 where what is on
    it could not be copied.
    """
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *user, "--mount", "sh", "-c", _ALONE, "sh", str(size), str(mount), str(into), *command]


def why_not(scratch: Path) -> str | None:
    """Return why no such volume can be made on this machine, if none can; ``scratch`` is an existing directory."""
    if shutil.which("unshare") is None:
        return "unshare is not installed: no volume of its own can be made"
    mount, into = scratch / "volume-tried", scratch / "volume-copied"
    mount.mkdir()
    into.mkdir()
    command = on_volume(["true"], size=65_536, mount=mount, into=into)
    done = subprocess.run(command, capture_output=True, check=False, timeout=TRY_SECONDS)
    if done.returncode:
        return f"this machine lets nobody make a volume here: {done.stderr.decode(errors='replace').strip()[-160:]}"
    return None
