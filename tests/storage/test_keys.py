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


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read any memory")
def test_a_hidden_process_cannot_be_read_by_its_own_user() -> None:
    held = _hold("from docket.storage.keys import hide_memory; assert hide_memory()")
    with pytest.raises(PermissionError), open(f"/proc/{held.pid}/mem", "rb"):
        pass
    held.communicate("\n", timeout=30)


def test_hiding_says_whether_it_held_and_forbids_core_dumps() -> None:
    code = (
        "import ctypes, resource\n"
        "from docket.storage.keys import hide_memory\n"
        "assert hide_memory() is True\n"
        "assert ctypes.CDLL(None).prctl(3) == 0\n"
        "assert resource.getrlimit(resource.RLIMIT_CORE) == (0, 0)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def _hold(code: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", f"{code}; print('ready', flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process
