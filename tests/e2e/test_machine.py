"""Machines that offer less than usual: no standard descriptors, full output, directories that cannot be synced."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from kit.installed import ROOT, Installed, environment

CLOSED = ("<&-", ">&-", "2>&-", "<&- >&-", ">&- 2>&-", "<&- >&- 2>&-")
AGENT = "ls -l /proc/self/fd >fds 2>/dev/null; echo AGENT''-OUT; echo AGENT''-ERR >&2; exit 7"


def shell(installed: Installed, line: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["bash", "-c", line],
        cwd=installed.directory,
        env=environment({"D": str(installed.docket), "AGENT": AGENT, **(env or {})}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("closed", CLOSED)
def test_a_run_started_without_standard_descriptors_gives_none_of_them_to_a_file_of_its_own(
    installed: Installed, closed: str
) -> None:
    assert shell(installed, f'"$D" run -- sh -c "$AGENT" {closed}').returncode == 7
    numbers = (installed.directory / "fds").read_text()
    assert [line for line in numbers.splitlines() if " 0 -> " in line or " 1 -> " in line or " 2 -> " in line]
    assert not [line for line in numbers.splitlines() if "ledger" in line or "lock" in line]
    for name in ("ledger.jsonl", "receipt.json", "checkpoints"):
        assert b"AGENT-" not in (installed.latest / name).read_bytes()
    assert installed.verdict()["verdict"] == "verified"


@pytest.mark.parametrize(
    "command", ["ls", "verify .docket/latest", "doctor", "report .docket/latest", "--help", "prices"]
)
@pytest.mark.parametrize(
    "closed",
    [pytest.param("<&-", marks=pytest.mark.long), pytest.param("2>&-", marks=pytest.mark.long), "<&- >&- 2>&-"],
)
def test_no_command_fails_for_want_of_a_standard_descriptor(installed: Installed, command: str, closed: str) -> None:
    installed.run("run", "--quiet", "--", "true")
    expected = shell(installed, f'"$D" {command}').returncode
    done = shell(installed, f'"$D" {command} {closed}')
    assert done.returncode == expected
    assert b"fault of docket" not in done.stderr


@pytest.mark.parametrize(
    "command", ["ls", "verify .docket/latest", "verify --json .docket/latest", "--help", "--version"]
)
def test_a_result_that_cannot_be_printed_is_a_failure_with_its_reason(installed: Installed, command: str) -> None:
    installed.run("run", "--quiet", "--", "true")
    done = shell(installed, f'"$D" {command} >/dev/full')
    assert done.returncode == 125
    assert b"the result could not be printed: No space left on device" in done.stderr
    assert b"fault of docket" not in done.stderr
    assert b"Traceback" not in done.stderr


PRINTS = (
    "ls",
    "ls --json",
    "report .docket/latest",
    "report --json .docket/latest",
    "explain .docket/latest",
    "verify .docket/latest",
    "verify --json .docket/latest",
    "prices",
    "doctor",
    "doctor --json",
    "tail .docket/latest",
    "tail --json .docket/latest",
    "watch --once .docket/latest",
    "watch --once --json .docket/latest",
    "restore .docket/latest",
    "prove .docket/latest --seq 1",
    "completion bash",
    "run --help",
    "--version",
)


@pytest.mark.parametrize(
    "command", [pytest.param(each, marks=[] if at % 3 == 0 else [pytest.mark.long]) for at, each in enumerate(PRINTS)]
)
def test_whoever_stops_reading_gets_no_traceback_and_a_full_device_is_no_fault_of_docket(
    installed: Installed, command: str
) -> None:
    """Also where nothing at all can be said: a result is a failure unread, a remark is not."""
    installed.run("run", "--quiet", "--snapshot", "--", "touch", "made")
    plain = shell(installed, f'"$D" {command}')
    assert plain.returncode == 0, plain.stderr
    gone = shell(installed, f'"$D" {command} | true; exit ${{PIPESTATUS[0]}}')
    assert gone.returncode in (0, 141)
    assert gone.stderr in (b"", plain.stderr)
    full = shell(installed, f'"$D" {command} >/dev/full')
    assert full.returncode == 125
    assert b"the result could not be printed: No space left on device" in full.stderr
    assert not [word for word in (b"fault of docket", b"Traceback") if word in full.stderr]
    assert shell(installed, f'"$D" {command} >/dev/full 2>&1').returncode == 125
    assert shell(installed, f'"$D" {command} 2>/dev/full').returncode == 0


@pytest.mark.parametrize("line", ['"$D" run --frobnicate 2>/dev/full', '"$D" verify nowhere 2>/dev/full'])
def test_a_message_that_nobody_can_read_does_not_change_the_status(installed: Installed, line: str) -> None:
    assert shell(installed, line).returncode == 2


@pytest.fixture
def unsynced(tmp_path: Path) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    library = tmp_path / "unsynced.so"
    source = ROOT / "tests/fixtures/unsynced_directories.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    return library


@pytest.mark.parametrize("code", [errno.EINVAL, errno.EBADF, errno.ENOTSUP, errno.ENOSYS])
def test_a_file_system_that_cannot_sync_directories_is_used_and_that_is_said_once(
    installed: Installed, unsynced: Path, code: int
) -> None:
    env = {"LD_PRELOAD": str(unsynced), "DIRSYNC_ERRNO": str(code)}
    done = installed.run("run", "--snapshot", "--", "env", "-u", "LD_PRELOAD", "sh", "-c", "exit 4", env=env)
    assert done.status == 4
    assert done.err.count("cannot sync a directory") == 1
    assert any("cannot sync a directory" in limit for limit in installed.receipt()["limits"])
    assert installed.verdict()["verdict"] == "verified"


def test_a_failing_sync_of_a_directory_is_not_taken_for_a_missing_one(installed: Installed, unsynced: Path) -> None:
    env = {"LD_PRELOAD": str(unsynced), "DIRSYNC_ERRNO": str(errno.EIO)}
    done = installed.run("run", "--", "touch", "started", env=env)
    assert done.status == 2
    assert "Input/output error" in done.err
    assert not (installed.directory / "started").exists()


def test_where_directories_can_be_synced_nothing_is_said_of_it(installed: Installed) -> None:
    done = installed.run("run", "--", "true")
    assert "sync" not in done.err
    assert not any("sync a directory" in limit for limit in installed.receipt()["limits"])


def test_the_receipt_calls_prevented_only_what_a_trial_showed(installed: Installed) -> None:
    """Whoever may trace every process can open docket's memory: with that right it is not called hidden."""
    installed.run("run", "--", "grep", "CapEff", "/proc/self/status")
    effective = int(installed.run("run", "--quiet", "--", "grep", "CapEff", "/proc/self/status").out.split()[1], 16)
    mechanisms = installed.receipt()["enforcement"]["mechanisms"]
    assert mechanisms["memory"].startswith("not prevented" if effective >> 19 & 1 else "hidden")
    assert mechanisms["process_tree"] == "guardian as child subreaper"
    assert all(
        words.startswith("not prevented")
        for name, words in mechanisms.items()
        if name not in ("memory", "process_tree")
    )


def test_flags_named_like_their_keys_are_the_short_ones(installed: Installed) -> None:
    done = installed.run("run", "--max-model-calls", "7", "--max-wall-seconds", "9m", "--", "true")
    assert done.status == 0
    caps = installed.receipt()["caps"]
    assert (caps["calls"]["limit"], caps["wall_us"]["limit"]) == (7, 540_000_000)


def test_a_dollar_cap_that_would_hold_nothing_is_refused_by_name(installed: Installed) -> None:
    done = installed.run("run", "--budget-mode", "quota", "--max-usd", "1", "--", "touch", "started")
    assert done.status == 2
    assert "--max-usd" in done.err
    assert not (installed.directory / "started").exists()
    assert installed.run("run", "--budget-mode", "quota", "--max-tokens", "5", "--", "true").status == 0


def test_restoring_a_run_that_kept_nothing_says_so_and_how_to_keep_it(installed: Installed) -> None:
    installed.run("run", "--quiet", "--", "touch", "made")
    done = installed.run("restore", ".docket/latest")
    assert done.status == 2
    assert "without --snapshot" in done.err
    assert "docket run --snapshot" in done.err


def test_a_snapshot_that_could_not_keep_everything_says_so_at_the_terminal(installed: Installed) -> None:
    os.mkfifo(installed.directory / "pipe")
    told = installed.run("run", "--quiet", "--snapshot", "--", "true").err
    assert "the snapshot is not whole: Files before the run: 1 paths" in told
    (installed.directory / "pipe").unlink()
    assert "not whole" not in installed.run("run", "--quiet", "--snapshot", "--", "true").err


def test_init_replaces_a_link_and_a_fifo_and_writes_through_neither(installed: Installed) -> None:
    theirs = installed.directory / "theirs"
    theirs.write_text("x")
    file = installed.directory / "docket.toml"
    for make in (lambda: file.symlink_to(theirs), lambda: os.mkfifo(file)):
        file.unlink(missing_ok=True)
        make()
        done = installed.run("init", "--force")
        assert done.status == 0
        assert "docs/policy.md" in done.err
        assert file.is_file()
        assert not file.is_symlink()
    assert theirs.read_text() == "x"


def test_control_characters_of_the_agent_reach_no_output(installed: Installed) -> None:
    """A label with an escape sequence, C1 and bidirectional controls, through every command that shows it."""
    label = "a\x1b]0;owned\x07\x9b31m\u202egnp"
    runs = [installed.run("run", "--label", label, "--", "true", "\x1b[2J\x85")]
    for command in (
        ("ls",),
        ("ls", "--json"),
        ("report", ".docket/latest"),
        ("report", "--json", ".docket/latest"),
        ("verify", ".docket/latest"),
        ("verify", "--json", ".docket/latest"),
        ("doctor",),
        ("doctor", "--json"),
        ("watch", "--once", "latest"),
        ("watch", "--once", "--json", "latest"),
        ("verify", f"nowhere{label}"),
        ("ls", f"--{label}"),
        ("report", f"nowhere{label}"),
    ):
        runs.append(installed.run(*command))
    for done in runs:
        assert not set(done.out + done.err) & {"\x1b", "\x07", "\x9b", "\x85", "\u202e"}
    (row,) = json.loads(installed.run("ls", "--json").out)
    assert row["label"] == label


FULL = """
import os, subprocess, sys
os.set_blocking(2, False)
try:
    while True:
        os.write(2, b"x")
except BlockingIOError:
    pass
os.set_blocking(2, True)
print("full", flush=True)
os.execvp("sleep", ["sleep", "60"])
"""


def test_a_cap_holds_though_nobody_reads_what_docket_says(installed: Installed) -> None:
    """The agent fills the pipe that it shares with docket's stderr, and its reader does not read."""
    reading, writing = os.pipe()
    command = [str(installed.docket), "run", "--max-wall-clock", "2", "--", "python3", "-c", FULL]
    with subprocess.Popen(
        command, cwd=installed.directory, env=environment({}), stdout=subprocess.PIPE, stderr=writing
    ) as docket:
        os.close(writing)
        assert docket.stdout is not None
        assert docket.stdout.readline() == b"full\n"
        assert docket.wait(20) == 42
    os.close(reading)
    assert installed.receipt()["end"]["event"]["data"]["outcome"] == "breached"
    assert installed.verdict()["verdict"] == "verified"


CALLER = """
import os, signal, sys
number = getattr(signal, sys.argv[2])
if sys.argv[1] == "ignored":
    signal.signal(number, signal.SIG_IGN)
else:
    signal.pthread_sigmask(signal.SIG_BLOCK, {number})
os.execvp(sys.argv[3], sys.argv[3:])
"""


@pytest.mark.parametrize("how", ["ignored", "blocked"])
@pytest.mark.parametrize("name", ["SIGCHLD", "SIGTERM", "SIGTTOU"])
def test_a_caller_s_signal_settings_reach_the_agent_and_hinder_docket_in_nothing(
    installed: Installed, how: str, name: str
) -> None:
    """A caller that ignores or blocks SIGCHLD (an init, a server) leaves that to whatever it starts."""
    probe = ["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]
    caller = ["python3", "-c", CALLER, how, name]
    bare = subprocess.run([*caller, *probe], capture_output=True, check=True, text=True)
    done = subprocess.run(
        [*caller, str(installed.docket), "run", "--quiet", "--", *probe],
        cwd=installed.directory,
        env=environment({}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, _without_python_s_own(bare.stdout)), done.stderr
    assert installed.verdict()["verdict"] == "verified"


INHERITED = """
import ctypes, json, os, signal
state = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
names = "SigBlk Umask Groups Uid Gid Seccomp NoNewPrivs CapInh CapPrm CapBnd CapAmb Cpus_allowed Mems_allowed"
kept = {name: state.get(name) for name in names.split()}
kept["ignored"] = int(state["SigIgn"], 16)
for name in ("limits", "oom_score_adj", "coredump_filter", "personality", "timerslack_ns"):
    try:
        kept[name] = open(f"/proc/self/{name}").read()
    except OSError as error:
        kept[name] = error.errno
call = ctypes.CDLL(None)
kept["prctl"] = [call.prctl(number, 0, 0, 0, 0) for number in (3, 7, 13, 27, 34, 42)]
kept["scheduler"] = [os.sched_getscheduler(0), os.nice(0), sorted(os.sched_getaffinity(0)), call.syscall(252, 1, 0)]
kept["files"] = sorted(int(name) for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}"))
kept["place"] = [os.getcwd(), os.readlink("/proc/self/root"), os.getuid()]
print(json.dumps(kept))
"""
SETTINGS = {
    "none": "",
    "umask": "umask 027;",
    "real-time signals and others ignored": "trap '' RTMIN RTMIN+5 USR1 ALRM PROF XCPU WINCH;",
    "limits": "ulimit -S -n 200; ulimit -c 0; ulimit -S -s 4096; ulimit -t 1000; ulimit -f 100000;",
    "priority": "renice -n 3 $$ >/dev/null;",
    "out of memory": "echo 500 >/proc/$$/oom_score_adj;",
    "core dumps": "echo 0x7 >/proc/$$/coredump_filter;",
    "processors": "taskset -p 1 $$ >/dev/null;",
    "scheduling": "chrt -b -p 0 $$ >/dev/null; ionice -c 3 -p $$;",
    "files": "exec 3</dev/null 9</dev/null;",
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_what_a_process_inherits_of_its_caller_is_the_same_under_docket(installed: Installed, setting: str) -> None:
    (installed.directory / "inherited.py").write_text(INHERITED)
    words = "python3 inherited.py"
    bare = shell(installed, f"{SETTINGS[setting]} exec {words}")
    under = shell(installed, f'{SETTINGS[setting]} exec "$D" run --quiet -- {words}')
    assert json.loads(under.stdout) == json.loads(bare.stdout), under.stderr


@pytest.mark.parametrize("numbers", [(34, 40), (10, 12, 14), (13, 17, 20)])
def test_signals_that_a_caller_blocked_are_blocked_in_the_agent_whatever_their_number(
    installed: Installed, numbers: tuple[int, ...]
) -> None:
    caller = "import os, signal, sys; signal.pthread_sigmask(0, {%s}); os.execvp(sys.argv[1], sys.argv[1:])"
    block = ["python3", "-c", caller % ", ".join(map(str, numbers))]
    probe = ["grep", "SigBlk", "/proc/self/status"]
    bare = subprocess.run([*block, *probe], capture_output=True, check=True)
    done = subprocess.run(
        [*block, str(installed.docket), "run", "--quiet", "--", *probe],
        cwd=installed.directory,
        env=environment({}),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, bare.stdout), done.stderr


def _without_python_s_own(status: str) -> str:
    """``status`` without SIGPIPE and SIGXFSZ, which the caller, a Python, ignores and docket does not hand on."""
    own = sum(1 << number - 1 for number in (signal.SIGPIPE, signal.SIGXFSZ))
    blocked, ignored = status.splitlines()
    return f"{blocked}\nSigIgn:\t{int(ignored.split()[1], 16) & ~own:016x}\n"


@pytest.mark.parametrize("way", ["link", "hard link"])
def test_a_summary_or_metrics_are_not_written_through_a_link_that_the_agent_made(
    installed: Installed, way: str
) -> None:
    theirs = installed.directory.parent / f"theirs-{way[:4]}"
    theirs.write_text("theirs")
    option = "-s" if way == "link" else ""
    script = f"ln {option} {theirs} s.md; ln {option} {theirs} m.prom"
    done = installed.run("run", "--summary-file", "s.md", "--metrics-file", "m.prom", "--", "sh", "-c", script)
    assert done.status == 0, done.err
    assert theirs.read_text() == "theirs"
    assert theirs.stat().st_nlink == 1
    for name, holds in (("s.md", "### docket"), ("m.prom", "docket_")):
        assert not (installed.directory / name).is_symlink()
        assert holds in (installed.directory / name).read_text()


def test_a_summary_goes_into_a_device_as_it_always_did(installed: Installed) -> None:
    done = installed.run("run", "--quiet", "--summary-file", "/dev/stdout", "--", "true")
    assert done.out.startswith("### docket")
    assert Path("/dev/stdout").is_symlink()


STORED = "stored=$(find .docket -type f -size 7c -path '*/contents/*'); ln $stored name; "


def test_a_name_of_the_agent_s_on_what_docket_stored_is_taken_away_and_the_store_stays(installed: Installed) -> None:
    file = installed.directory / "file"
    file.write_text("content")
    installed.run("run", "--quiet", "--snapshot", "--", "sh", "-c", STORED + "rm file; echo changed >file")
    assert (installed.directory / "name").stat().st_nlink == 2
    assert installed.run("restore", ".docket/latest", "--apply").status == 0
    assert file.read_text() == "content"
    assert not (installed.directory / "name").exists()
    assert file.stat().st_nlink == 1


def test_what_the_agent_wrote_into_the_store_through_a_name_of_its_own_is_never_put_back(installed: Installed) -> None:
    file = installed.directory / "file"
    file.write_text("content")
    installed.run("run", "--quiet", "--snapshot", "--", "sh", "-c", STORED + "echo planted >name; echo changed >file")
    done = installed.run("restore", ".docket/latest", "--apply")
    assert done.status == 1
    assert "is not what its name says" in done.out + done.err
    assert file.read_text() == "changed\n"
