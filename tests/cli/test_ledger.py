"""The walk over a ledger that commands share: how far it got, and in what state the run is."""

from __future__ import annotations

from pathlib import Path

import pytest

from docket.cli.ledger import walk
from docket.errors import FormatError, UsageError
from docket.ledger.chain import Entry
from docket.storage.paths import RECEIPT
from kit.growing import GrowingRun
from kit.scripted import Script


def test_a_run_is_live_then_dead_or_ended(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path)
    seen: list[Entry] = []
    assert walk(tmp_path / ".docket", Path("latest"), seen.append).state == "live"
    run.release()
    assert walk(tmp_path / ".docket", Path("latest"), seen.append).state == "dead"
    run.end()
    walked = walk(tmp_path / ".docket", run.path, seen.append)
    assert (walked.state, walked.events, walked.problem) == ("ended", 2, None)
    assert [entry.seq for entry in seen] == [0, 0, 0, 1]


@pytest.mark.parametrize("rest", [b'{"half', b"{}\n", b"\x00" * 4096])
def test_what_stands_behind_the_last_good_line_is_said_and_what_is_before_it_is_read(
    tmp_path: Path, rest: bytes
) -> None:
    path = Script().start().ask().write(tmp_path) / "ledger.jsonl"
    seen: list[Entry] = []
    events = walk(tmp_path, path, seen.append).events
    with path.open("ab") as stream:
        stream.write(rest)
    walked = walk(tmp_path, path, seen.append)
    assert (walked.events, walked.state) == (events, "dead")
    assert walked.problem is not None
    assert walked.problem.startswith("read up to here only: ")


def test_what_holds_no_ledger_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        walk(tmp_path, Path("nowhere"), lambda entry: None)
    receipt = tmp_path / RECEIPT
    receipt.write_text('{"format":"docket-receipt/1"}\n')
    with pytest.raises(FormatError, match="has no ledger"):
        walk(tmp_path, receipt, lambda entry: None)
