"""Run tests as a user without any rights, where the interpreter lies in a directory that only its owner may enter.

``python -m tools.another_user [--uid N] -- PYTEST ARGUMENTS``, as root. Nothing of the machine is changed: in a mount
namespace of its own every closed directory on the way to the interpreter, to the environment and to this checkout is
covered by an empty one that lets everybody through to just those. Home, temporary files and caches are the user's own.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NOBODY = 65534


def closed_above(path: Path) -> Path | None:
    """Return the highest directory above ``path`` that others may not enter, if there is one."""
    return next((above for above in reversed(path.parents) if not above.stat().st_mode & 0o001), None)


def needed() -> list[Path]:
    """Return what the tests read: the interpreter, its environment, this checkout."""
    found = [Path(sys.base_prefix).resolve(), Path(sys.prefix).resolve(), ROOT]
    return [path for path in found if not any(other in path.parents for other in found)]


def covering(paths: Sequence[Path], stage: Path) -> list[str]:
    """Return the lines of a shell that let everybody through to ``paths``, in a mount namespace of its own."""
    hidden = [(path, above) for path in paths if (above := closed_above(path)) is not None]
    lines = ["mount --make-rprivate /"]
    for number, (path, _) in enumerate(hidden):
        held = shlex.quote(str(stage / str(number)))
        lines += [f"mkdir {held}", f"mount --bind {shlex.quote(str(path))} {held}"]
    lines += [
        f"mount -t tmpfs -o mode=0755 docket {shlex.quote(str(above))}" for above in {above for _, above in hidden}
    ]
    for number, (path, _) in enumerate(hidden):
        place = shlex.quote(str(path))
        lines += [f"mkdir -p {place}", f"mount --bind {shlex.quote(str(stage / str(number)))} {place}"]
    return lines


def run(uid: int, arguments: Sequence[str]) -> int:
    """Run pytest with ``arguments`` as ``uid``; return its exit status."""
    with tempfile.TemporaryDirectory(prefix="docket-as-another-") as base:
        os.chmod(base, 0o711)
        stage, home = Path(base, "stage"), Path(base, "home")
        for each in (stage, home):
            each.mkdir(mode=0o700)
        os.chown(home, uid, uid)
        environment = {
            "PATH": f"{Path(sys.prefix, 'bin')}:{os.environ.get('PATH', os.defpath)}",
            "HOME": str(home),
            "TMPDIR": str(home),
            "HYPOTHESIS_STORAGE_DIRECTORY": str(home / "hypothesis"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "LANG": os.environ.get("LANG", "C.UTF-8"),
        }
        test = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
        drop = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--no-new-privs", "--", *test]
        script = " && ".join([*covering(needed(), stage), f"cd {shlex.quote(str(ROOT))}", f"exec {shlex.join(drop)}"])
        return subprocess.run(["unshare", "--mount", "sh", "-c", script], env=environment, check=False).returncode


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Gives the exit status of the tests, 2 where they cannot be run so."""
    parser = argparse.ArgumentParser(prog="python -m tools.another_user", description=__doc__)
    parser.add_argument("--uid", type=int, default=NOBODY)
    parser.add_argument("pytest", nargs="*", help="arguments of pytest")
    options = parser.parse_args(arguments)
    missing = [name for name in ("unshare", "setpriv", "mount") if shutil.which(name) is None]
    if os.geteuid() != 0 or missing:
        parser.error(f"needs root and {', '.join(missing) or 'nothing else'}")
    return run(options.uid, options.pytest)


if __name__ == "__main__":
    sys.exit(main())
