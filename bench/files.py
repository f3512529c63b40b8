"""Reading, keeping and restoring a large tree, beside ``git status`` and ``cp -a --reflink=auto`` on the same tree.

``python -m bench.files TREE --out docs/measurements``: TREE is the work tree of a committed git repository, and is
copied first. Every figure is taken in a process of its own, in turns, with warm caches.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from docket.clock import SystemClock
from docket.ledger.events import Event, FsSnapshot
from docket.snapshot.capture import OPEN_DIRECTORY, Tree, Walk
from docket.snapshot.content import HashOnly
from docket.snapshot.previous_manifest import Earlier
from docket.snapshot.restore import roll_back
from docket.snapshot.scope import Scope
from docket.snapshot.watch import FileWatch, Watched
from docket.storage.paths import RunDirectory, docket_number

TURNS = 5
LATE_NS = 10**12
"""The tree was written a moment ago; it is read as if it had rested."""


def first(tree: Path, scratch: Path) -> dict[str, float]:
    """Digest every file."""
    return _walk(tree, scratch / "first.jsonl", None)


def again(tree: Path, scratch: Path) -> dict[str, float]:
    """A second walk that knows the first."""
    return _walk(tree, scratch / "again.jsonl", scratch / "first.jsonl")


def _walk(tree: Path, out: Path, known: Path | None) -> dict[str, float]:
    fd = os.open(tree, OPEN_DIRECTORY)
    began, cpu_began = time.perf_counter(), time.process_time()
    with out.open("wb") as file:
        earlier = Earlier(known.open("rb")) if known else None
        walk = Walk(
            Tree(fd, str(tree), None, None),
            Scope(gitignore=False, ignore=(".git/",)),
            HashOnly(),
            file,
            taken_ns=time.time_ns() + LATE_NS,
            stored=False,
            earlier=earlier,
        )
        capture = walk.run()
        if earlier:
            earlier.finish()
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu_began
    return {
        "seconds": seconds,
        "cpu_seconds": cpu,
        "files": capture.totals.files,
        "bytes": capture.totals.bytes,
        "reused": capture.reused,
    }


def git_status(tree: Path, scratch: Path) -> dict[str, float]:
    """``git status --short`` of the same tree."""
    return _command("git", "-C", str(tree), "status", "--short")


def copy(tree: Path, scratch: Path) -> dict[str, float]:
    """``cp -a --reflink=auto`` of the same files."""
    target = scratch / "copy"
    figures = _command("cp", "-a", "--reflink=auto", str(tree / "node_modules"), str(target))
    figures["disk_bytes"] = _disk_bytes(target)
    shutil.rmtree(target)
    return figures


def snapshot_and_restore(tree: Path, scratch: Path) -> dict[str, float]:
    """Keep all contents; lose the whole of node_modules; see it; give it back."""
    docket_dir = scratch / ".docket"
    run = RunDirectory.create(docket_dir, docket_number(SystemClock().unix_us(), os.urandom))
    watch = FileWatch(
        run, Watched(cwd=tree, docket_dir=docket_dir, scope=Scope(gitignore=False, ignore=(".git/",)), stored=True)
    )
    times = [time.perf_counter()]
    watch.before()
    times.append(time.perf_counter())
    stored = _disk_bytes(run.path / "snapshot")
    (tree / "node_modules").rename(scratch / "lost")
    times.append(time.perf_counter())
    events: list[Event] = list(watch.after())
    times.append(time.perf_counter())
    results, _ = roll_back(run, watch, 0)
    times.append(time.perf_counter())
    bad = [result for result in results if result.outcome != "done"]
    same = subprocess.run(
        ["diff", "-r", "--no-dereference", str(tree / "node_modules"), str(scratch / "lost")], check=False
    )
    watch.close()
    shutil.rmtree(scratch / "lost")
    shutil.rmtree(docket_dir)
    last = events[-1]
    assert isinstance(last, FsSnapshot)
    return {
        "snapshot_seconds": times[1] - times[0],
        "after_seconds": times[3] - times[2],
        "restore_seconds": times[4] - times[3],
        "stored_disk_bytes": stored,
        "restored": len(results),
        "not_done": len(bad),
        "different": same.returncode,
    }


def _command(*argv: str) -> dict[str, float]:
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": time.perf_counter() - began, "cpu_seconds": cpu}


def _disk_bytes(path: Path) -> int:
    return sum(os.lstat(os.path.join(base, name)).st_blocks * 512 for base, _, names in os.walk(path) for name in names)


PARTS: dict[str, Callable[[Path, Path], dict[str, float]]] = {
    part.__name__: part for part in (first, again, git_status, copy, snapshot_and_restore)
}


def _alone(name: str, tree: Path, scratch: Path) -> dict[str, float]:
    """One figure in a process of its own, with its peak memory."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.files", str(tree), "--part", name, "--scratch", str(scratch)],
        check=True,
        stdout=subprocess.PIPE,
    )
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("tree", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--heavy", type=int, default=3, help="turns of what writes the whole tree")
    parser.add_argument("--part")
    parser.add_argument("--scratch", type=Path)
    options = parser.parse_args()
    if options.part:
        figures = PARTS[options.part](options.tree, options.scratch)
        figures["peak_rss_kib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps(figures))
        return
    with tempfile.TemporaryDirectory(dir=options.tree.parent) as place:
        scratch = Path(place)
        tree = scratch / "tree"
        subprocess.run(["cp", "-a", str(options.tree), str(tree)], check=True)
        subprocess.run(["git", "-C", str(tree), "status", "--short"], check=True)
        _alone("first", tree, scratch)
        raw: dict[str, list[dict[str, float]]] = {}
        for _ in range(TURNS):
            for name in ("first", "again", "git_status"):
                raw.setdefault(name, []).append(_alone(name, tree, scratch))
        for _ in range(options.heavy):
            for name in ("copy", "snapshot_and_restore"):
                raw.setdefault(name, []).append(_alone(name, tree, scratch))
    medians = {
        name: {key: statistics.median(each[key] for each in rows) for key in rows[0]} for name, rows in raw.items()
    }
    text = json.dumps({"medians": medians, "raw": raw}, indent=1)
    if options.out:
        (options.out / "files-2026-11-30.json").write_text(text + "\n")
    print(json.dumps(medians, indent=1))


if __name__ == "__main__":
    main()
