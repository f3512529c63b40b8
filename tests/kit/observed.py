"""Restores seen from outside: many of them in one process under strace, and what each of them touched.

As a program it is the process that is watched: it reads a list of restores and prints their exit statuses.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docket.primitives.canonical import decode, encode

MARK = "/docket-observer-mark/"
"""A path that is not there; asking for it parts the log."""
TRACED = (
    "open,openat,openat2,creat,rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir,mkdirat,symlink,symlinkat,link,"
    "linkat,chmod,fchmod,fchmodat,chown,lchown,fchown,fchownat,utimensat,truncate,ftruncate,mknod,mknodat,setxattr,"
    "lsetxattr,fsetxattr,removexattr,lremovexattr,fremovexattr"
)
"""Every call that opens or changes a name or an object."""
CHANGING = re.compile(
    r"(?:rename|unlink|rmdir|mkdir|symlink|link|chmod|chown|utimens|truncate|mknod|setxattr|removexattr)\w*$"
)
_CALL = re.compile(r"^\d+ +(\w+)\((.*)\) += (-?\d+)(?:<(.*?)>)?")
_DESCRIPTOR = re.compile(r"\b\d+<([^>]*)>")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Seen:
    """What one restore did to the file system: paths it opened, paths it changed."""

    status: int
    opened: tuple[str, ...]
    changed: tuple[str, ...]


def observe(restores: dict[str, list[str]], log: Path, *, openat2: bool = True) -> dict[str, Seen]:
    """Run the command lines, by name, in one watched process."""
    program = [sys.executable, "-m", "kit.observed", "openat2" if openat2 else "walk"]
    done = subprocess.run(
        ["strace", "-f", "--seccomp-bpf", "-y", "-s", "4096", "-o", str(log), "-e", f"trace={TRACED}", "--", *program],
        input=encode(restores).decode(),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(Path(__file__).parent.parent)},
    )
    assert done.returncode == 0, done.stderr
    statuses: Any = decode(done.stdout.splitlines()[-1].encode())
    parts = {name: ([], []) for name in restores}  # type: ignore[var-annotated]
    current = None
    with log.open(errors="replace") as lines:
        for line in lines:
            if MARK in line:
                current = parts.get(line.partition(MARK)[2].partition('"')[0])
            elif current is not None:
                opened, changed = _touched(line)
                current[0].extend(opened)
                current[1].extend(changed)
    return {name: Seen(statuses[name], tuple(opened), tuple(changed)) for name, (opened, changed) in parts.items()}


def _touched(line: str) -> tuple[list[str], list[str]]:
    match = _CALL.match(line)
    if match is None or int(match[3]) < 0:
        return [], []
    name, arguments, path = match[1], match[2], match[4]
    if name.startswith("open"):
        writes = re.search(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC", arguments)
        return [path or ""], [path or ""] if writes else []
    if CHANGING.match(name):
        return [], list(_named(name, arguments))
    return [], []


def _named(name: str, arguments: str) -> Iterator[str]:
    """The absolute paths that a changing call names: each name joined to the descriptor before it."""
    if name.startswith("symlink"):
        arguments = arguments[arguments.index('", ') + 3 :]  # the target is data
    directory = ""
    for token in re.finditer(r'\b\d+<([^>]*)>|"((?:[^"\\]|\\.)*)"|NULL', arguments):
        if token[1] is not None:
            directory = token[1]
        elif token[2] is not None:
            descriptor = re.fullmatch(r"/proc/self/fd/\d+", token[2])
            if not descriptor:
                yield os.path.normpath(os.path.join(directory, token[2]))
    if "NULL" in arguments or name.startswith("f"):
        yield directory


def below(paths: Iterable[str], directory: Path) -> list[str]:
    """Those of ``paths`` that lie in ``directory``."""
    return [path for path in paths if path == str(directory) or path.startswith(f"{directory}/")]


def _mark(name: str) -> None:
    with suppress(FileNotFoundError):
        os.open(MARK + name, os.O_RDONLY)


def main() -> None:
    from docket.cli.main import status_of
    from docket.snapshot import confined

    if sys.argv[1] == "walk":
        confined.openat2 = lambda root, path: None  # type: ignore[assignment]
    statuses = {}
    home = os.getcwd()
    out = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    for name, (cwd, *arguments) in decode(sys.stdin.buffer.read()).items():
        _mark(name)
        os.chdir(cwd)
        statuses[name] = status_of(["restore", *arguments])
        os.chdir(home)
    _mark("")
    sys.stdout.flush()
    os.write(out, encode(statuses) + b"\n")


if __name__ == "__main__":
    main()
