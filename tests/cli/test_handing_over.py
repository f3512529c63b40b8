"""``docket redact`` and ``docket prove``: less than the whole run, verified all the same."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from docket.cli.main import status_of
from docket.cli.redact import CATEGORIES
from docket.receipt import redaction
from kit.recordings import Recording, key, small, write


@pytest.fixture
def run(tmp_path: Path) -> Path:
    recording = small(key("operator"), calls=3)
    return write({**recording.files(), "blobs/ab": b"what the agent said"}, tmp_path / "run")


def answer(path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    capsys.readouterr()
    status_of(["verify", "--json", str(path)])
    return json.loads(capsys.readouterr().out)


def bytes_of(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def hashes(data: bytes) -> list[bytes]:
    return re.findall(rb'"(?:hash|prev|root|head|run_key)":"[0-9a-f]+"', data)


def test_a_redacted_run_keeps_every_hash_and_signature_and_its_verdict(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = bytes_of(run)
    assert status_of(["redact", str(run), "--out", str(tmp_path / "copy")]) == 0
    assert bytes_of(run) == before
    copy = bytes_of(tmp_path / "copy")
    assert sorted(copy) == ["checkpoints", "ledger.jsonl", "receipt.json"]
    assert copy["checkpoints"] == before["checkpoints"]
    assert hashes(copy["ledger.jsonl"]) == hashes(before["ledger.jsonl"])
    whole, redacted = answer(run, capsys), answer(tmp_path / "copy", capsys)
    assert (whole["verdict"], whole["root"], whole["vouched"]) == (
        redacted["verdict"],
        redacted["root"],
        redacted["vouched"],
    )
    assert set(redacted["withheld"]) >= {
        "argv",
        "cwd",
        "request_sha256",
        "response_sha256",
        "label",
        "source",
        "target",
    }
    for secret in (b"/home/ada", b"agent.py", b"nightly", "café".encode()):
        assert secret not in copy["ledger.jsonl"] + copy["receipt.json"]


@pytest.mark.parametrize("kind", CATEGORIES)
def test_each_kind_is_withheld_by_itself(
    kind: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(["redact", str(run), "--withhold", kind, "--out", str(tmp_path / "copy")]) == 0
    redacted = answer(tmp_path / "copy", capsys)
    assert redacted["verdict"] == "verified"
    assert set(redacted["withheld"]) <= redaction.CATEGORIES[kind]
    assert redacted["withheld"]
    assert (tmp_path / "copy" / "blobs").exists() == (kind != "bodies")


def test_a_member_of_an_unknown_name_is_withheld_with_any_kind_but_bodies(tmp_path: Path) -> None:
    recording = Recording()
    recording.start()
    recording.add("note", {}, by="agent", private={"thought": "I hid the key under the mat"})
    recording.end()
    run = write(recording.files(), tmp_path / "run")
    for kind, hidden in (("paths", True), ("bodies", False)):
        assert status_of(["redact", str(run), "--withhold", kind, "--out", str(tmp_path / kind)]) == 0
        assert (b"under the mat" not in (tmp_path / kind / "ledger.jsonl").read_bytes()) == hidden


def test_an_altered_disclosed_value_or_salt_of_a_copy_fails(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status_of(["redact", str(run), "--withhold", "bodies", "--out", str(tmp_path / "copy")])
    ledger = tmp_path / "copy" / "ledger.jsonl"
    data = ledger.read_bytes()
    salt = re.search(rb'"salt":"[0-9a-f]{32}"', data)
    assert salt is not None
    for old, new in ((b"/home/ada", b"/home/eve"), (salt[0], b'"salt":"' + b"0" * 32 + b'"')):
        ledger.write_bytes(data.replace(old, new, 1))
        assert answer(tmp_path / "copy", capsys)["verdict"] == "failed"


def test_redact_refuses_what_it_cannot_mean(run: Path, tmp_path: Path) -> None:
    assert status_of(["redact", str(run), "--withhold", "secrets", "--out", str(tmp_path / "a")]) == 2
    assert status_of(["redact", str(run), "--withhold", "", "--out", str(tmp_path / "a")]) == 2
    assert status_of(["redact", str(run), "--out", str(run / "inside")]) == 2
    assert status_of(["redact", str(run), "--out", str(tmp_path)]) == 2


@pytest.mark.parametrize("seq", range(11))
def test_every_event_can_be_handed_over_by_itself(
    seq: int, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proof = tmp_path / "proof.json"
    assert status_of(["prove", str(run), "--seq", str(seq), "--out", str(proof), "--withhold", "paths,argv"]) == 0
    report = answer(proof, capsys)
    assert report["verdict"] == "verified"
    assert [voucher["role"] for voucher in report["vouched"]] == ["run"]
    assert b"/home/ada" not in proof.read_bytes()
    assert json.loads(proof.read_bytes())["event"]["event"]["seq"] == seq


def test_an_event_that_no_checkpoint_covers_cannot_be_proven(run: Path) -> None:
    assert status_of(["prove", str(run), "--seq", "11"]) == 2


def test_no_event_of_a_damaged_ledger_is_proven(run: Path) -> None:
    ledger = run / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes().replace(b'"bytes":900', b'"bytes":901', 1))
    assert status_of(["prove", str(run), "--seq", "1"]) == 2


def test_the_categories_of_the_command_are_those_of_the_core() -> None:
    assert tuple(redaction.CATEGORIES) == CATEGORIES
