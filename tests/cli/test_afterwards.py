"""``docket doctor``, ``archive``, ``prune`` and what ``ls`` can be asked, as commands."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from docket.cli.main import status_of
from docket.storage.paths import LEDGER, RECEIPT
from kit.runs import continue_run, new_run, write_unsealed


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


async def sealed(root: Path, number: str | None = None) -> Path:
    run = new_run(root, number=number)
    await write_unsealed(run, 1)
    await continue_run(run.path)
    run.close()
    return run.path


async def test_doctor_exits_0_when_all_is_well_1_when_there_is_something_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = await sealed(tmp_path)
    assert status_of(["doctor"]) == 0
    assert f"{path.name}: complete" in capsys.readouterr().out
    died = new_run(tmp_path)
    await write_unsealed(died, 2)
    with (died.path / LEDGER).open("ab") as file:
        file.write(b'{"by":')
    assert status_of(["doctor", "--json", died.name]) == 1
    (told,) = json.loads(capsys.readouterr().out)["runs"]
    size = (died.path / LEDGER).stat().st_size
    assert (told["state"], told["offset"], told["bytes"], told["last_whole_event"]) == ("torn tail", size - 6, 6, 4)
    assert status_of(["doctor", "--quarantine-torn-tail", "latest"]) == 1
    assert "no receipt" in capsys.readouterr().out
    assert status_of(["doctor", "--close", str(died.path)]) == 0
    assert "1 open calls lost" in capsys.readouterr().err


async def test_doctor_exits_2_where_nothing_can_be_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = await sealed(tmp_path)
    (path / "receipt.json").write_bytes(b"not a receipt at all\n")
    assert status_of(["doctor", path.name]) == 2
    assert status_of(["doctor", "DKT-20260101-0000000000"]) == 2
    assert "docket ls" in capsys.readouterr().err
    assert status_of(["doctor", "--close"]) == 2


async def test_doctor_without_runs_says_what_the_machine_offers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(["doctor", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)["machine"]
    assert {"docket", "packages", "kernel", "durable files", "clock", "prices", "verifiers"} <= facts.keys()
    assert "work in" in facts["durable files"]
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".docket-doctor")]


async def test_an_archive_verifies_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = await sealed(tmp_path)
    assert status_of(["archive", "latest"]) == 0
    assert capsys.readouterr().out == f"{path.name}.tar\n"
    assert status_of(["verify", "--json", f"{path.name}.tar"]) == status_of(["verify", "--json", str(path)]) == 3
    first, second = capsys.readouterr().out.split("\n}\n")[:2]
    assert first == second
    assert status_of(["archive", "latest"]) != 0


async def test_prune_needs_a_rule_says_what_it_does_and_does_nothing_when_dry(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [await sealed(tmp_path) for _ in range(3)]
    assert status_of(["prune"]) == 2
    capsys.readouterr()
    assert status_of(["prune", "--keep-last", "1", "--dry-run"]) == 0
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == [path.name for path in paths[:2]]
    assert status_of(["prune", "--keep-days", "1"]) == 0
    assert len(list((tmp_path / ".docket/runs").iterdir())) == 3
    assert status_of(["prune", "--keep-last", "1"]) == 0
    assert [path.name for path in (tmp_path / ".docket/runs").iterdir()] == [paths[2].name]
    assert "2 runs" in capsys.readouterr().err


async def test_ls_finds_runs_by_model_and_day(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await sealed(tmp_path, "DKT-20261101-0000000000")
    await sealed(tmp_path, "DKT-20261130-0000000000")

    def listed(*arguments: str) -> list[str]:
        assert status_of(["ls", "--json", *arguments]) == 0
        return [row["docket"] for row in json.loads(capsys.readouterr().out)]

    assert len(listed()) == 2
    assert listed("--since", "2026-11-15") == ["DKT-20261130-0000000000"]
    assert len(listed("--model", "gpt-*")) == 2
    assert listed("--model", "claude-*") == []
    assert status_of(["ls", "--since", "yesterday"]) == 2


async def test_doctor_looks_at_any_directory_that_holds_a_run_whatever_it_is_called(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = await sealed(tmp_path)
    copy = tmp_path / "evidence from the client"
    path.rename(copy)
    assert status_of(["doctor", str(copy)]) == 0
    assert capsys.readouterr().out.startswith("evidence from the client: complete")
    (copy / RECEIPT).unlink()
    assert status_of(["doctor", str(copy)]) == 1
    before = sorted(entry.name for entry in copy.iterdir())
    assert status_of(["doctor", "--close", str(copy)]) == 2
    assert "is not called by its docket number" in capsys.readouterr().err
    assert sorted(entry.name for entry in copy.iterdir()) == before
    (tmp_path / "empty").mkdir()
    assert status_of(["doctor", str(tmp_path / "empty")]) == 2
