"""A drill of the agent's working directory: what it did to the tree is taken back."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

from docket.chaos.lab import DEADLINE_SECONDS, Lab
from docket.chaos.phases.always import always
from docket.chaos.report import PhaseReport

HARM = (
    "echo changed > kept.txt; rm gone.txt; mkdir -p new/deep; echo x > new/deep/file; chmod 600 mode.txt; ln -s / link"
)


def rollback(lab: Lab, report: PhaseReport) -> None:
    """An agent changes, removes and adds files; restore puts the tree back, and leaves what came later alone."""
    tree = lab.room("tree")
    for name in ("kept.txt", "gone.txt", "mode.txt"):
        (tree / name).write_text(f"{name} as it was\n")
    before = _digest(tree)
    run = lab.run(lab.provider(), argv=("sh", "-c", HARM), cwd=tree, flags=["--snapshot"]).wait()
    report.check("exit status of the agent", "process", expected=0, observed=run.status)
    report.check("the tree was changed", "disk", expected=False, observed=_digest(tree) == before)
    changes = sorted(str(change["change"]) for change in run.evidence.of("fs.change"))
    report.check("changes on record", "ledger", expected="at least 5", observed=changes, ok=len(changes) >= 5)
    (tree / "later.txt").write_text("made by a person after the run")
    (tree / "kept.txt").write_text("changed again by a person")
    first = _restore(run.evidence.directory, tree)
    report.check("a file that changed again is refused", "process", expected=1, observed=first)
    report.check("what the person wrote", "disk", expected="changed again by a person",
                 observed=(tree / "kept.txt").read_text())  # fmt: skip
    second = _restore(run.evidence.directory, tree, "--force")
    report.check("restore by force", "process", expected=0, observed=second)
    report.check("what came later", "disk", expected=True, observed=(tree / "later.txt").exists())
    (tree / "later.txt").unlink()
    report.check("the tree is as it was", "disk", expected=before, observed=_digest(tree))
    always(report, run)


def _restore(run: Path, tree: Path, *flags: str) -> int:
    command = [sys.executable, "-m", "docket", "restore", str(run), "--root", str(tree), "--apply", "--json", *flags]
    done = subprocess.run(command, capture_output=True, check=False, timeout=DEADLINE_SECONDS)
    json.loads(done.stdout)
    return done.returncode


def _digest(tree: Path) -> str:
    """Names, modes and contents of everything below ``tree``."""
    digest = hashlib.sha256()
    for path in sorted(tree.rglob("*")):
        state = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        digest.update(f"{path.relative_to(tree)} {state.st_mode:o} {len(content)} ".encode() + content)
    return digest.hexdigest()
