"""The operator's key file, and hiding the process's memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from docket.errors import UsageError
from docket.primitives.signature import verify
from docket.storage.keys import generate_operator_key, new_run_key, read_operator_key


def test_a_generated_key_reads_back_and_is_private(tmp_path: Path) -> None:
    made = generate_operator_key(tmp_path / "op.key")
    read = read_operator_key(tmp_path / "op.key")
    assert read.public == made.public
    assert verify(made.public, b"m", read.sign(b"m"))
    assert (tmp_path / "op.key").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["op.key"]


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    generate_operator_key(tmp_path / "op.key")
    before = (tmp_path / "op.key").read_bytes()
    with pytest.raises(UsageError, match="exists already"):
        generate_operator_key(tmp_path / "op.key")
    assert (tmp_path / "op.key").read_bytes() == before


@pytest.mark.parametrize(
    "content", [b"", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", b"\0" * 99]
)
def test_what_is_no_key_is_refused_without_quoting_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "op.key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(UsageError, match=r"op\.key") as caught:
        read_operator_key(path)
    assert caught.value.hint is not None


def test_a_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    generate_operator_key(tmp_path / "op.key")
    (tmp_path / "op.key").chmod(0o640)
    with pytest.raises(UsageError, match="read by others") as caught:
        read_operator_key(tmp_path / "op.key")
    assert caught.value.hint == f"chmod 600 {tmp_path / 'op.key'}"


def test_places_that_do_not_exist_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="absent"):
        read_operator_key(tmp_path / "absent")
    with pytest.raises(UsageError, match="absent"):
        generate_operator_key(tmp_path / "absent" / "op.key")


def test_openssl_made_keys_are_read(tmp_path: Path) -> None:
    path = tmp_path / "op.key"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(path)], check=True)
    path.chmod(0o600)
    assert len(read_operator_key(path).public) == 32


def test_run_keys_differ() -> None:
    assert new_run_key().public != new_run_key().public


PEEK = """
import ctypes, os, signal, sys
from docket.storage.keys import hide_memory

def drop():
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # as a process is that was started by its user

def start(hides):
    ready, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        drop()
        if hides:
            assert hide_memory()
        os.write(told, b"x")
        signal.pause()
    os.read(ready, 1)
    return pid

def can_read(pid):
    peeker = os.fork()
    if peeker == 0:
        drop()
        try:
            open(f"/proc/{pid}/mem", "rb").close()
        except PermissionError:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(peeker, 0)[1]) == 0

for hides in (False, True):
    pid = start(hides)
    print(can_read(pid))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
"""


def test_a_process_of_the_same_user_reads_the_memory_only_of_one_that_does_not_hide_it() -> None:
    done = subprocess.run([sys.executable, "-c", PEEK], capture_output=True, text=True, timeout=60, check=False)
    if done.stdout.startswith("False"):
        pytest.skip("this system lets no process read another's memory at all")
    assert done.stdout.splitlines() == ["True", "False"], done.stderr


HIDE = """
import ctypes, os, resource, sys
from docket.storage.keys import hide_memory
if sys.argv[1] == "nobody":
    os.setgid(65534)
    os.setuid(65534)
said = hide_memory()
assert ctypes.CDLL(None).prctl(3) == 0
assert resource.getrlimit(resource.RLIMIT_CORE) == (0, 0)
effective = next(line.split()[1] for line in open("/proc/thread-self/status") if line.startswith("CapEff:"))
print(said, bool(int(effective, 16) >> 19 & 1))
"""


@pytest.mark.parametrize("user", ["as it is", "nobody"])
def test_hiding_says_whether_it_held_by_a_trial_and_forbids_core_dumps(user: str) -> None:
    """Who may read every process (CAP_SYS_PTRACE) reads this one too, and then it is not called hidden."""
    if user == "nobody" and os.geteuid() != 0:
        pytest.skip("only root can become another user")
    argv = [sys.executable, "-c", HIDE, user]
    done = subprocess.run(argv, check=True, timeout=60, capture_output=True, text=True)
    hidden, may_read = done.stdout.split()
    assert hidden == str(may_read == "False")
