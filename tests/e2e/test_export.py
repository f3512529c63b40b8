"""``docket export --in-toto``: read and checked by the reference implementation of its form."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

from docket.cli.main import status_of
from docket.verify import verifier
from kit.installed import Installed


def _key(public: str) -> SSlibKey:
    return SSlibKey(public, "ed25519", "ed25519", {"public": public})


@pytest.fixture
def made(installed: Installed) -> tuple[Installed, str]:
    """A run with a key that signs, and the public half of another key that states."""
    public = installed.run("keygen", "op.pem").out.strip()
    script = "echo changed > file"
    done = installed.run("run", "--sign", "op.pem", "--label", "SENTINEL-label", "--", "sh", "-c", script)
    assert done.status == 0, done.err
    return installed, public


def test_the_statement_is_signed_by_the_operator_and_names_the_files_of_the_run(made: tuple[Installed, str]) -> None:
    run, public = made
    done = run.run("export", "--in-toto", "--sign", "op.pem", str(run.latest))
    assert done.status == 0, done.err
    envelope = Envelope.from_dict(json.loads(done.out))
    assert set(envelope.verify([_key(public)], 1)) == {public}
    stated = json.loads(envelope.payload)
    assert stated["_type"] == "https://in-toto.io/Statement/v1"
    subjects = {subject["name"]: subject["digest"]["sha256"] for subject in stated["subject"]}
    for name in ("ledger.jsonl", "receipt.json"):
        assert subjects[name] == hashlib.sha256((run.latest / name).read_bytes()).hexdigest()
    (after,) = [event for event in run.events("fs.snapshot") if event["data"]["when"] == "after"]
    assert subjects["tree"] == after["private"]["tree"]["value"]
    assert stated["predicate"]["docket"] == run.receipt()["docket"]
    assert stated["predicate"]["verdict"] == "verified"
    assert stated["predicate"]["totals"] == run.receipt()["totals"]
    assert b"SENTINEL" not in envelope.payload
    assert str(run.directory).encode() not in envelope.payload


def test_another_key_or_a_changed_payload_is_refused(made: tuple[Installed, str]) -> None:
    run, public = made
    other = run.run("keygen", "other.pem").out.strip()
    envelope = Envelope.from_dict(json.loads(run.run("export", "--in-toto", "--sign", "op.pem", str(run.latest)).out))
    with pytest.raises(VerificationError):
        envelope.verify([_key(other)], 1)
    changed = Envelope(envelope.payload.replace(b"completed", b"breached"), envelope.payload_type, envelope.signatures)
    with pytest.raises(VerificationError):
        changed.verify([_key(public)], 1)


def test_a_run_that_does_not_verify_is_not_stated(made: tuple[Installed, str], tmp_path: Path) -> None:
    run, _ = made
    ledger = run.latest / "ledger.jsonl"
    data = bytearray(ledger.read_bytes())
    data[len(data) // 2] ^= 1
    ledger.write_bytes(data)
    done = run.run("export", "--in-toto", "--sign", "op.pem", str(run.latest))
    assert (done.status, done.out) == (2, "")
    assert "not stated" in done.err


def test_what_lacks_a_receipt_or_a_form_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["export", "--sign", "op.pem", str(tmp_path)]) == 2
    assert "--in-toto" in capsys.readouterr().err


def test_what_is_stated_is_what_was_verified_whatever_lies_there_a_moment_later(
    made: tuple[Installed, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ledger and receipt are swapped in the instant in which verification returns."""
    run, public = made
    names = ("ledger.jsonl", "receipt.json")
    digests = {name: hashlib.sha256((run.latest / name).read_bytes()).hexdigest() for name in names}
    genuine = verifier.verify

    def then_swap(*arguments: Any) -> Any:
        report = genuine(*arguments)
        for name in names:
            path = (run.latest / name).resolve()
            path.write_bytes(path.read_bytes().replace(b"completed", b"breached!"))
        return report

    monkeypatch.setattr(verifier, "verify", then_swap)
    key = str(run.directory / "op.pem")
    assert status_of(["export", "--in-toto", "--sign", key, str(run.latest.resolve())]) == 0
    envelope = Envelope.from_dict(json.loads(capsys.readouterr().out))
    envelope.verify([_key(public)], 1)
    stated = json.loads(envelope.payload)
    subjects = {subject["name"]: subject["digest"]["sha256"] for subject in stated["subject"]}
    assert {name: subjects[name] for name in names} == digests
    assert stated["predicate"]["session"]["outcome"] == "completed"
