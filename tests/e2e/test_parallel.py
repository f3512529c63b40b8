"""Several docket commands on one directory at once: each ends as if alone, and ``latest`` names a run that is there."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from docket.storage.documents import documents_at
from docket.verify.verifier import verify
from kit.barrier import docket_at
from kit.installed import Installed, environment
from kit.processes import until


def at_once(installed: Installed, commands: Sequence[Sequence[str]]) -> list[tuple[int, str]]:
    """Run ``commands`` of docket at once; the status of each and what it said. ``latest`` never dangles meanwhile."""
    started = [
        subprocess.Popen(
            [str(installed.docket), *command],
            cwd=installed.directory,
            env=environment({}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for command in commands
    ]

    def ended() -> bool:
        assert not dangles(installed.latest)
        return all(process.poll() is not None for process in started)

    assert until(ended, patience=60)
    return [(process.wait(), process.communicate()[0]) for process in started]


def dangles(latest: Path) -> bool:
    """Whether ``latest`` names a run that is not there; it may have moved on between two looks."""
    try:
        target = os.readlink(latest)
    except FileNotFoundError:
        return False
    return not (latest.parent / target).exists() and os.readlink(latest) == target


def play(installed: Installed, rounds: int, together: int) -> None:
    for _ in range(rounds):
        ends = at_once(
            installed, [["run", "--quiet", "--", "sh", "-c", f"exit {number % 3}"] for number in range(together)]
        )
        assert [status for status, _ in ends] == [number % 3 for number in range(together)], ends
    runs = list((installed.directory / ".docket/runs").iterdir())
    assert len(runs) == together * rounds
    assert {str(verify(documents_at(run)).verdict) for run in runs} == {"verified"}
    assert not [name for name in os.listdir(installed.directory / ".docket") if "tmp" in name]


def test_runs_that_begin_at_once_are_as_many_runs(installed: Installed) -> None:
    play(installed, 1, 6)


@pytest.mark.long
def test_thirty_six_runs_in_three_rounds_and_a_latest_whose_run_was_removed(installed: Installed) -> None:
    play(installed, 3, 12)
    run = installed.latest.resolve()
    subprocess.run(["rm", "-rf", str(run)], check=True)
    done = installed.run("verify", ".docket/latest")
    assert done.status == 2
    assert "Traceback" not in done.err
    assert installed.run("run", "--quiet", "--", "true").status == 0
    assert installed.verdict()["verdict"] == "verified"


def test_pruning_while_runs_begin_takes_no_run_that_is_under_way(installed: Installed) -> None:
    for _ in range(2):
        installed.run("run", "--quiet", "--", "true")
    prune, run = ["prune", "--keep-last", "0"], ["run", "--quiet", "--", "sh", "-c", "exit 3"]
    ends = at_once(installed, [prune, run, prune, run])
    assert [status for status, _ in ends] == [0, 3, 0, 3], ends
    assert not [said for _, said in ends if "fault of docket" in said or "Traceback" in said]
    assert not dangles(installed.latest)


@pytest.mark.parametrize("place", ["docket.storage.paths:point_latest", "docket.supervisor.run:RunFiles.before"])
def test_a_run_that_has_no_ledger_yet_is_not_taken_for_an_old_one(installed: Installed, place: str) -> None:
    """Its files are being read, which may take long; or its directory was made a moment ago."""
    with docket_at(place, installed.directory, "true") as docket:
        assert installed.run("prune", "--keep-last", "0").status == 0
        _, said = docket.communicate(b".", timeout=30)
    assert docket.returncode == 0, said
    assert installed.verdict()["verdict"] == "verified"


def test_one_dead_run_that_many_close_at_once_is_closed_once(installed: Installed) -> None:
    with subprocess.Popen(
        [str(installed.docket), "run", "--quiet", "--", "sh", "-c", "echo ready; exec tail -f /dev/null"],
        cwd=installed.directory,
        env=environment({}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as docket:
        assert docket.stdout is not None
        assert docket.stdout.readline() == b"ready\n"
        docket.send_signal(signal.SIGKILL)
    run = installed.latest.resolve()
    until(lambda: installed.run("doctor", str(run)).status != 0)
    ends = at_once(installed, [["doctor", "--close", str(run)]] * 3)
    assert 0 in {status for status, _ in ends}, ends
    assert not [said for _, said in ends if "fault of docket" in said or "Traceback" in said]
    assert [name for name in os.listdir(run) if name.startswith("receipt")] == ["receipt.json"]
    assert verify(documents_at(run)).verdict == "recovered"


def test_a_job_summary_that_runs_share_holds_each_of_them_once_and_whole(installed: Installed) -> None:
    step = installed.directory / "step.md"
    script = ["env", f"GITHUB_STEP_SUMMARY={step}"]
    ends = [
        subprocess.Popen(
            [*script, str(installed.docket), "run", "--quiet", "--", "true"],
            cwd=installed.directory,
            env=environment({}),
            stderr=subprocess.DEVNULL,
        )
        for _ in range(3)
    ]
    assert [process.wait(60) for process in ends] == [0] * 3
    text = step.read_text()
    numbers = [path.name for path in (installed.directory / ".docket/runs").iterdir()]
    parts = text.split("### docket ")[1:]
    assert sorted(part.splitlines()[0] for part in parts) == sorted(numbers)
    assert len({len(part.splitlines()) for part in parts}) == 1


NEW = {
    "init": (["init"], "docket.toml"),
    "keygen": (["keygen", "key"], "key"),
    "archive": (["archive", ".docket/latest", "-o", "it.tar"], "it.tar"),
    "redact": (["redact", ".docket/latest", "--out", "copy", "--withhold", "argv"], "copy"),
}


@pytest.mark.parametrize("name", NEW)
def test_of_many_that_make_one_new_thing_one_makes_it_and_the_others_say_that_it_is_there(
    installed: Installed, name: str
) -> None:
    installed.run("run", "--quiet", "--", "true")
    words, thing = NEW[name]
    ends = at_once(installed, [words] * 4)
    assert sorted(status == 0 for status, _ in ends) == [False, False, False, True], ends
    assert not [said for _, said in ends if "fault of docket" in said or "Traceback" in said]
    assert all("exist" in said for status, said in ends if status), ends
    assert (installed.directory / thing).exists()
    assert not [left for left in os.listdir(installed.directory) if "tmp" in left or left.startswith(f".{thing}")]
    if name in ("archive", "redact"):
        assert installed.run("verify", thing).status == 0


def test_of_many_that_resume_one_run_one_does_and_the_others_name_it(installed: Installed) -> None:
    installed.run("run", "--quiet", "--", "true")
    hold = "touch ready; while [ ! -e go ]; do sleep 0.05; done; exit 3"
    first = subprocess.Popen(
        [str(installed.docket), "run", "--quiet", "--resume", "latest", "--", "sh", "-c", hold],
        cwd=installed.directory,
        env=environment({}),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert until((installed.directory / "ready").exists)
    ends = at_once(installed, [["run", "--quiet", "--resume", "latest", "--", "touch", "second"]] * 3)
    (installed.directory / "go").touch()
    assert first.wait(30) == 3
    assert [status for status, _ in ends] == [125] * 3
    assert all(f"in use by pid {first.pid}" in said for _, said in ends), ends
    assert not (installed.directory / "second").exists()
    assert installed.verdict()["verdict"] in ("verified", "incomplete")


def test_of_many_restores_of_one_run_none_disturbs_another(installed: Installed) -> None:
    files = {f"f{number}": f"before {number}" for number in range(20)}
    for name, text in files.items():
        (installed.directory / name).write_text(text)
    installed.run(
        "run", "--quiet", "--snapshot", "--", "sh", "-c", "rm f1*; for f in f*; do echo x >$f; done; touch new"
    )
    ends = at_once(installed, [["restore", ".docket/latest", "--apply"]] * 4)
    assert {status for status, _ in ends} <= {0, 2}, ends
    assert all("is being restored by another process" in said for status, said in ends if status), ends
    assert 0 in {status for status, _ in ends}, ends
    assert {name: (installed.directory / name).read_text() for name in files} == files
    assert not (installed.directory / "new").exists()
    assert not [name for name in os.listdir(installed.directory) if name.startswith(".docket-restore")]
