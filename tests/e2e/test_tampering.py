"""What an agent does to the record while it is written: seen at the latest at the seal, told, never verified.

Each trial is one way to change one part of the record; docs/security.md has the same table, and its rows are compared
with what the trials give: as root, and as the same user without any capability, which is what a plain user is.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from kit.installed import ROOT, Installed, Provider, environment

PAGE = ROOT / "docs/security.md"
PLAIN = "without capabilities"
RUN = "run=$(echo .docket/runs/DKT-*); n=${run##*/}; sleep 0.3; "
WAYS = ("edit", "truncate", "remove", "replace", "move", "decoy")
PARTS = ("ledger", "checkpoints", "run directory", "docket directory", "latest")
FILES = {"ledger": "$run/ledger.jsonl", "checkpoints": "$run/checkpoints"}
DIRECTORIES = {"run directory": "$run", "docket directory": ".docket"}
OF_FILE = {
    "edit": "printf X | dd of={0} bs=1 seek=30 conv=notrunc 2>/dev/null",
    "truncate": "truncate -s 10 {0}",
    "remove": "rm -f {0}",
    "replace": "cp {0} copy; mv copy {0}",
    "move": "mv {0} elsewhere",
    "decoy": "mv {0} elsewhere; echo decoy >{0}",
}
OF_DIRECTORY = {
    "edit": "echo x >{0}/receipt.json",
    "truncate": "rm -rf {0}/*",
    "remove": "rm -rf {0}",
    "replace": "cp -a {0} copy; rm -rf {0}; mv copy {0}",
    "move": "mv {0} elsewhere",
    "decoy": "mv {0} elsewhere; mkdir -p $run; echo '{{}}' >$run/receipt.json",
}
OF_LATEST = {
    "edit": "ln -sfn runs .docket/latest",
    "truncate": "ln -sfn / .docket/latest",
    "remove": "rm .docket/latest",
    "replace": "rm .docket/latest; mkdir .docket/latest",
    "move": "mv .docket/latest .docket/first",
    "decoy": "mkdir old; cp -a $run old/$n; ln -sfn ../old/$n .docket/latest",
}


@dataclass(frozen=True)
class Trial:
    """One way to change one part of the record."""

    way: str
    part: str

    @property
    def attack(self) -> str:
        if self.part in FILES:
            return OF_FILE[self.way].format(FILES[self.part])
        if self.part == "latest":
            return OF_LATEST[self.way]
        if self == Trial("edit", "docket directory"):
            return "mv .docket/runs .docket/other; ln -s other .docket/runs"
        return OF_DIRECTORY[self.way].format(DIRECTORIES[self.part])


TRIALS = [Trial(way, part) for part in PARTS for way in WAYS]


@dataclass(frozen=True)
class Found:
    """What the operator sees afterwards."""

    status: int
    said: str
    intact: str
    verdict: str

    @classmethod
    def of(cls, installed: Installed, status: int, err: str, argv: tuple[str, ...] = ()) -> Found:
        reasons = re.findall(r"changed by another hand: (.*)", err)
        receipts = re.findall(r"receipt: (/.*)", err)
        receipt = Path(receipts[-1]) if receipts else None
        if receipt is None or not receipt.exists():
            return cls(status, ", ".join(reasons), "no receipt", "none")
        document = receipt.parent if (receipt.parent / "ledger.jsonl").exists() else receipt
        intact = json.loads(receipt.read_text())["ops"]["evidence"]["intact"]
        done = subprocess.run(
            [*argv, str(installed.docket), "verify", "--json", str(document)],
            capture_output=True,
            text=True,
            env=environment({}),
            check=False,
        )
        return cls(status, ", ".join(reasons), str(intact).lower(), json.loads(done.stdout)["verdict"])

    @property
    def cells(self) -> tuple[str, str, str, str]:
        return str(self.status), self.said or "the record could not be written", self.intact, self.verdict


def tampered(installed: Installed, trial: Trial, user: str, *flags: str, end: str = "exit 0") -> tuple[Found, str]:
    argv: tuple[str, ...] = ()
    directory, state = installed.directory, installed.directory / "state"
    if user == PLAIN:
        if os.geteuid() != 0 or shutil.which("setpriv") is None:
            pytest.skip("only root can give up its rights, and setpriv does it")
        argv = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
    command = [*argv, str(installed.docket), "run", *flags, "--", "sh", "-c", f"{RUN}{trial.attack}; {end}"]
    done = subprocess.run(
        command,
        cwd=directory,
        env=environment({"XDG_STATE_HOME": str(state)}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Found.of(installed, done.returncode, done.stderr, argv), done.stderr


def rows() -> dict[Trial, tuple[str, ...]]:
    """The table of the page: per trial what it says of status, stderr, receipt and verify."""
    found = {}
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 6 and cells[0] in PARTS and cells[1] in WAYS:
            found[Trial(cells[1], cells[0])] = tuple(cells[2:])
    return found


def test_the_page_has_a_row_of_every_trial() -> None:
    assert set(rows()) == set(TRIALS)


SAMPLE = [
    Trial("edit", "ledger"),
    Trial("decoy", "docket directory"),
    Trial("decoy", "latest"),
    Trial("move", "run directory"),
]


@pytest.mark.parametrize("user", ["as it is", PLAIN])
@pytest.mark.parametrize(
    "trial",
    [pytest.param(t, marks=() if t in SAMPLE else pytest.mark.long, id=f"{t.way}-{t.part}") for t in TRIALS],
)
def test_a_change_of_the_record_is_seen_told_and_never_verified(installed: Installed, trial: Trial, user: str) -> None:
    found, err = tampered(installed, trial, user)
    assert "receipt: /" in err, "every one of them ends with a receipt"
    assert found.cells == rows()[trial], err
    assert found.status == 125
    assert found.intact == "false"
    assert found.verdict != "verified"
    assert "Traceback" not in err
    assert "fault of docket" not in err


def test_a_cap_that_was_reached_does_not_hide_a_changed_record(
    installed: Installed, provider: Callable[..., Provider]
) -> None:
    flags = (*provider().flags, "--max-calls", "1", "--on-breach", "deny")
    call = 'curl -s -o /dev/null -d "{\\"model\\":\\"gpt-4o\\",\\"messages\\":[]}" "$OPENAI_BASE_URL/chat/completions"'
    found, err = tampered(installed, Trial("edit", "ledger"), "as it is", *flags, end=f"{call}; {call}; exit 0")
    assert (found.status, found.intact) == (125, "false")
    assert "max_model_calls reached" in err


def test_ls_and_the_last_metrics_tell_of_a_changed_record(installed: Installed) -> None:
    found, _ = tampered(installed, Trial("replace", "ledger"), "as it is", "--metrics-file", "last.prom")
    (row,) = json.loads(installed.run("ls", "--json").out)
    assert (found.intact, row["record"]) == ("false", "changed")
    assert "changed" in installed.run("ls").out
    assert 'docket_events_total{type="policy.violation"} 1.0' in (installed.directory / "last.prom").read_text()


def test_a_later_run_may_take_latest_over(installed: Installed) -> None:
    """Not a change of the record: docket itself does it, and says whose the name is now."""
    inner = f"{installed.docket} run --quiet -- true 2>/dev/null"
    done = installed.run("run", "--", "sh", "-c", f"{inner}; exit 3")
    assert done.status == 3
    assert "latest names another run now: DKT-" in done.err


def test_an_undamaged_run_is_intact_and_its_own_latest(installed: Installed) -> None:
    done = installed.run("run", "--", "sh", "-c", "exit 4")
    assert (done.status, installed.receipt()["ops"]["evidence"]["intact"]) == (4, True)
    assert "changed by another hand" not in done.err
    assert "latest names" not in done.err
