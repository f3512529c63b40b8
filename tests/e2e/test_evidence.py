"""The record when the disk refuses: a really full volume, and failing system calls, under a whole installed run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from kit.installed import Installed, Provider, environment

CALLS = 8
AGENT = """
call() { curl -s -o /dev/null -H 'content-type: application/json' -d '{"model":"gpt-4o","messages":[]}' \
  "$OPENAI_BASE_URL/chat/completions"; }
call; call
dd if=/dev/zero of=ballast bs=1k count=4096 2>/dev/null
for n in 1 2 3 4; do call; done
rm ballast
call; call
"""
"""Two calls, four while the volume is full, two after it."""

strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


@pytest.fixture
def volume(installed: Installed) -> Iterator[Installed]:
    """An installation whose working directory is a small volume."""
    if os.geteuid() != 0:
        pytest.skip("mounting a tmpfs needs root")
    directory = installed.directory / "volume"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(directory)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no tmpfs here: {mounted.stderr.strip()}")
    yield Installed(installed.python, installed.docket, directory)
    subprocess.run(["umount", "-l", str(directory)], check=True)


def filled(volume: Installed, upstream: Provider, mode: str) -> tuple[int, Counter[str], Counter[str]]:
    """A run on a volume that is full for a while: its status, what was recorded and what was told to be lost."""
    (volume.directory / "docket.toml").write_text(f'[resilience]\non_write_failure = "{mode}"\n')
    done = volume.run("run", *upstream.flags, "--", "sh", "-c", AGENT)
    events = volume.events()
    lost: Counter[str] = Counter()
    for event in events:
        if event["type"] == "x-docket.ledger-gap":
            lost.update(event["data"]["lost"]["types"])
    return done.status, Counter(event["type"] for event in events), lost


def test_continue_goes_on_and_tells_exactly_what_is_missing(
    volume: Installed, provider: Callable[..., Provider]
) -> None:
    upstream = provider()
    status, recorded, lost = filled(volume, upstream, "continue")
    assert status == 0
    assert lost["model.request"] > 0
    assert recorded["model.request"] + lost["model.request"] == CALLS == len(upstream.report()["requests"])
    assert recorded["model.response"] + lost["model.response"] == CALLS
    evidence = volume.receipt()["ops"]["evidence"]
    assert (evidence["ledger_complete"], evidence["gaps"]) == (False, {})
    assert evidence["unwritten_events"] == lost.total()
    assert (volume.verdict()["verdict"], volume.verdict()["exit"]) == ("incomplete", 3)


def test_refuse_forwards_no_call_that_is_not_recorded(volume: Installed, provider: Callable[..., Provider]) -> None:
    upstream = provider()
    status, recorded, lost = filled(volume, upstream, "refuse")
    assert status == 0
    assert recorded["model.request"] == len(upstream.report()["requests"])
    assert recorded["model.request"] < CALLS
    assert lost["model.request"] + lost["model.denied"] > 0
    assert (volume.verdict()["verdict"], volume.verdict()["exit"]) == ("incomplete", 3)


def test_stop_ends_the_run_with_125_and_a_receipt_that_names_what_is_missing(
    volume: Installed, provider: Callable[..., Provider]
) -> None:
    upstream = provider()
    status, recorded, lost = filled(volume, upstream, "stop")
    assert status == 125
    assert recorded["model.request"] == len(upstream.report()["requests"]) < CALLS
    receipt = volume.receipt()
    assert receipt["session"]["outcome"] == "failed"
    assert receipt["ops"]["evidence"]["unwritten_events"] == lost.total() > 0
    assert (volume.verdict()["verdict"], volume.verdict()["exit"]) == ("incomplete", 3)


def test_a_volume_without_room_for_the_end_of_a_run_starts_none(volume: Installed) -> None:
    ballast = volume.directory / "ballast"
    ballast.write_bytes(b"x" * 220 * 1024)
    done = volume.run("run", "--", "touch", "started")
    assert done.status == 125
    said = r"cannot reserve [0-9,]+ bytes in .* for the end of the run: No space left on device: [0-9,]+ bytes"
    assert re.search(said + " are missing", done.err)
    assert not (volume.directory / "started").exists()
    ballast.unlink()
    assert volume.run("run", "--", "touch", "started").status == 0
    assert not (volume.latest / "reserve").exists()


def test_a_full_ledger_stops_the_run_with_42_and_room_for_its_end(
    installed: Installed, provider: Callable[..., Provider]
) -> None:
    (installed.directory / "docket.toml").write_text("[resilience]\nmax_ledger_bytes = 65536\n")
    agent = AGENT.splitlines()
    script = "\n".join([*agent[:3], "while true; do call; done"])
    done = installed.run("run", *provider().flags, "--", "sh", "-c", script)
    assert done.status == 42, done.err
    assert installed.receipt()["session"]["breach"]["cap"] == "max_ledger_bytes"
    assert (installed.latest / "ledger.jsonl").stat().st_size <= 65536
    assert installed.receipt()["ops"]["evidence"]["ledger_complete"]
    assert installed.verdict()["verdict"] == "verified"


class Injection:
    """Runs of an agent that does nothing, in a fresh directory each, with one system call failing."""

    def __init__(self, installed: Installed) -> None:
        self.installed = Installed(installed.python, installed.docket, installed.directory / "work")
        self.state = installed.directory / "state"
        self.log = installed.directory / "strace.log"
        self.run()
        self.normal = len(self.installed.events())
        """Events of a run in which nothing fails."""

    def run(self, *strace: str) -> tuple[int, str]:
        shutil.rmtree(self.installed.directory, ignore_errors=True)
        shutil.rmtree(self.state, ignore_errors=True)
        self.installed.directory.mkdir()
        done = subprocess.run(
            [*strace, str(self.installed.docket), "run", "--", "true"],
            cwd=self.installed.directory,
            env=environment({"XDG_STATE_HOME": str(self.state)}),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stderr

    def check(self, call: str, errno: str, when: int) -> bool:
        """Fail the ``when``-th call of a kind: nothing wrong verifies, every number is exact; whether it came to it."""
        inject = f"inject={call}:error={errno}:when={when}"
        status, err = self.run("strace", "-f", "-qq", "-o", str(self.log), "-e", f"trace={call}", "-e", inject)
        struck = "INJECTED" in self.log.read_text()
        place = f"{call} {errno} {when}: {err}"
        run = next((self.installed.directory / ".docket" / "runs").glob("*"), None)
        if run is None or not (run / "ledger.jsonl").exists():
            assert status in (2, 125), place
            return struck
        told = next(self.state.glob("docket/*.receipt.json"), run / "receipt.json")
        said = self.installed.run("verify", "--json", str(run if told.parent == run else told)).out
        verdict = json.loads(said)["verdict"] if said else "unreadable"
        if not told.exists():
            assert status == 125, place
            assert "no receipt" in err, place
            assert verdict in ("unfinished", "unsealed", "unreadable"), place
            return struck
        assert status == 0, place
        receipt = json.loads(told.read_text())
        assert (receipt["kind"] == "from-memory") == (told.parent != run), place
        evidence, bound = receipt["ops"]["evidence"], receipt["ledger"]["size"]
        lines = (run / "ledger.jsonl").read_text().splitlines()[:bound]
        types = Counter(json.loads(line)["type"] for line in lines)
        gaps = types.pop("x-docket.ledger-gap", 0)
        unbound = int("end" not in receipt and "session.end" not in evidence["gaps"])
        assert gaps <= 1, place
        assert types.total() + evidence["unwritten_events"] + unbound == self.normal, place
        assert verdict == ("verified" if evidence["ledger_complete"] is True else "incomplete"), place
        return struck


@strace
@pytest.mark.parametrize(
    ("call", "errno", "when"),
    [("pwrite64", "ENOSPC", 4), ("pwrite64", "EIO", 3), ("fdatasync", "EIO", 4), ("fdatasync", "EIO", 2)],
)
def test_a_system_call_that_fails_once_is_disclosed_exactly(
    installed: Installed, call: str, errno: str, when: int
) -> None:
    assert Injection(installed).check(call, errno, when)


@strace
@pytest.mark.long
@pytest.mark.parametrize(
    ("call", "errno"),
    [("pwrite64", "ENOSPC"), ("pwrite64", "EDQUOT"), ("fdatasync", "EIO"), ("fsync", "EIO"), ("renameat", "EIO")],
)
def test_each_system_call_of_a_run_failing_once_is_disclosed_exactly(
    installed: Installed, call: str, errno: str
) -> None:
    injection, when = Injection(installed), 1
    while injection.check(call, errno, when):
        when += 1
    assert when > 1


@pytest.mark.parametrize(
    ("attack", "found"),
    [
        ("rm .docket/latest/ledger.jsonl", "ledger.jsonl removed"),
        ("cp .docket/latest/ledger.jsonl x; mv x .docket/latest/ledger.jsonl", "ledger.jsonl replaced"),
        ("echo '{}' >> .docket/latest/ledger.jsonl", "ledger.jsonl resized"),
        ("rm .docket/latest/checkpoints", "checkpoints removed"),
    ],
)
def test_an_agent_that_tampers_with_its_own_record_is_found_out_and_undone(
    installed: Installed, attack: str, found: str
) -> None:
    done = installed.run("run", "--", "sh", "-c", attack)
    assert done.status == 125, done.err
    assert not installed.receipt()["ops"]["evidence"]["intact"]
    assert [event["data"]["reason"] for event in installed.events("policy.violation")] == [found]
    assert installed.verdict()["verdict"] == "incomplete"
