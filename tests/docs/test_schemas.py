"""Every --json of a command that reads is what its JSON Schema says, with no member that the schema does not name."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from conformance.catalog import VECTORS
from docket.cli.main import status_of
from kit.growing import GrowingRun
from kit.runs import policy_applied, request, response
from kit.scripted import Script

SCHEMAS = Path(__file__).parents[2] / "spec/schemas"


def schema(name: str) -> dict[str, Any]:
    return json.loads((SCHEMAS / f"{name}.schema.json").read_text())


def closed(part: Any) -> Any:
    """The schema, with members that it does not name refused: it leaves them open for later versions."""
    if isinstance(part, list):
        return [closed(each) for each in part]
    if not isinstance(part, dict):
        return part
    made = {name: closed(each) for name, each in part.items()}
    if isinstance(part.get("properties"), dict) and "type" in part:
        made.setdefault("additionalProperties", False)
    return made


def check(name: str, document: Any) -> None:
    Draft202012Validator(closed(schema(name))).validate(document)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A docket directory with a sealed run, one that goes on, one that died, and one with findings and a torn line."""
    root = tmp_path_factory.mktemp("root")
    subprocess.run([sys.executable, "-m", "docket", "demo", "--docket-dir", ".docket"], cwd=root, capture_output=True)
    shutil.copytree((root / ".docket/latest").resolve(), root / "sealed")
    live, dead = GrowingRun(root, "DKT-20261101-0000000001"), GrowingRun(root, "DKT-20261101-0000000002")
    for run in (live, dead):
        run.append([policy_applied(), request(1), response(1), request(2), run.note("hello")])
        run.attest()
    dead.release()
    script = Script().start(deny_write=(".env",))
    for _ in range(7):
        script.ask(digest="again").ask("local").use("shell", is_error=True).deny("model_denied").fail()
    path = script.violate().write(root)
    with (path / "ledger.jsonl").open("ab") as stream:
        stream.write(b'{"half')
    return root


@pytest.fixture
def here(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(root)
    return root


RUNS = ["sealed", "DKT-20261101-0000000001", "DKT-20261101-0000000002", "latest"]


@pytest.mark.parametrize("name", [path.name.removesuffix(".schema.json") for path in sorted(SCHEMAS.iterdir())])
def test_a_schema_is_one(name: str) -> None:
    Draft202012Validator.check_schema(schema(name))
    assert schema(name)["$id"] == f"{name}.schema.json"


@pytest.mark.parametrize(
    ("words", "name", "runs"),
    [
        (["ls", "--json"], "ls", [[]]),
        (["ls", "--json", "--sort", "cost"], "ls", [[]]),
        (["explain", "--json"], "explain", [[run] for run in RUNS] + [RUNS]),
        (["explain", "--json", "--thresholds"], "thresholds", [[]]),
        (["diff", "--json"], "diff", [[a, b] for a in RUNS for b in RUNS]),
        (["doctor", "--json"], "doctor", [[], *([run] for run in RUNS)]),
        (["verify", "--json"], "verify", [["sealed"], [".docket/latest"], ["sealed/receipt.json"], ["."]]),
        (["report", "--json"], "receipt", [["sealed"]]),
        (["report", "--json"], "no-receipt", [[run] for run in RUNS[1:]]),
        (["show", "--json"], "event", [[run, str(seq)] for run in RUNS for seq in range(5)]),
    ],
)  # fmt: skip
def test_a_document_is_what_its_schema_says(
    here: Path, capsys: pytest.CaptureFixture[str], words: list[str], name: str, runs: list[list[str]]
) -> None:
    for run in runs:
        assert status_of([*words, *run]) in (0, 1, 2, 3)
        check(name, json.loads(capsys.readouterr().out))


@pytest.mark.parametrize("command", ["tail --json -n 999", "watch --json --once"])
@pytest.mark.parametrize("run", RUNS)
def test_each_line_is_an_event(here: Path, command: str, run: str) -> None:
    if run == "sealed":
        run = str(next(path for path in (here / ".docket/runs").iterdir() if (path / "receipt.json").exists()))
    done = subprocess.run([sys.executable, "-m", "docket", *command.split(), run], capture_output=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) > 4
    for line in lines:
        check("event", json.loads(line))


def test_each_line_of_a_batch_is_a_verdict(here: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "docket", "verify", "--batch"],
        input="sealed\nnowhere\n.docket/latest\n", capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["verdict"] for line in lines][:2] == ["verified", "unreadable"]
    for line in lines:
        check("verify", line)


def test_every_receipt_of_the_vectors_that_is_accepted_fits(capsys: pytest.CaptureFixture[str]) -> None:
    seen = 0
    for expected in sorted(VECTORS.glob("*/*/expect.toml")):
        wanted = tomllib.loads(expected.read_text())
        receipt = expected.parent / wanted.get("path", ".")
        receipt = receipt / "receipt.json" if receipt.is_dir() else receipt
        if wanted["verdict"] not in ("verified", "recovered") or receipt.name != "receipt.json":
            continue
        if not receipt.exists():
            continue
        Draft202012Validator(schema("receipt")).validate(json.loads(receipt.read_text()))
        seen += 1
    assert seen > 20


def test_a_redacted_event_fits(here: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    words = [sys.executable, "-m", "docket", "redact", "sealed", "--out", str(copy), "--withhold", "argv"]
    subprocess.run(words, capture_output=True, check=True)
    for line in (copy / "ledger.jsonl").read_text().splitlines():
        check("event", json.loads(line))
    assert "commitment" in (copy / "ledger.jsonl").read_text()
