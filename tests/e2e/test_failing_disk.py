"""The table of a failing disk: whatever befalls the volume, the end is told, the loss counted, and 42 stays 42."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.failing_disk import CAPS, FAULTS, MODES, NO_START, SLOW, Cell, cells, play, play_all, sample

SEED = 20261201


def test_the_table_crosses_every_fault_with_every_policy_and_every_cap() -> None:
    assert len(cells()) == len(set(cells())) >= 200
    assert {cell.fault for cell in cells()} == {*FAULTS, *NO_START, SLOW}
    assert {(cell.fault, cell.mode) for cell in cells() if cell.cap == "none"} >= {
        (f, m) for f in FAULTS for m in MODES
    }
    assert {cell.cap for cell in cells()} == set(CAPS)


@pytest.mark.parametrize("cell", sample(SEED, 5), ids=lambda cell: f"{cell.fault}-{cell.mode}-{cell.cap}-{cell.breach}")
def test_a_cell_loses_nothing_undisclosed_and_exits_as_docket_decided(tmp_path: Path, cell: Cell) -> None:
    assert play(cell, tmp_path).wrong == []


def test_a_cell_that_breaks_a_rule_is_found_out(tmp_path: Path) -> None:
    played = play(Cell("vanish=25", "continue", "none", "kill"), tmp_path)
    assert played.wrong == []
    assert (played.status, played.receipt, played.before) == (0, "from-memory, elsewhere", "no receipt")
    played.need(played.recorded == played.forwarded, "nothing was recorded of these calls but their number")
    assert played.wrong


@pytest.mark.long
def test_every_cell_loses_nothing_undisclosed_and_exits_as_docket_decided() -> None:
    results = list(play_all(cells(), jobs=2))
    assert [(result.cell, result.wrong) for result in results if result.wrong] == []
