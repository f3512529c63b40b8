"""What commands print: nothing that an agent chose moves the cursor, and tables stay in line."""

from __future__ import annotations

import ast
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.cli import output


@given(st.text())
def test_no_text_reaches_the_terminal_as_a_control_character(text: str) -> None:
    shown = output.printable(text)
    assert len(shown) == len(text)
    assert not {unicodedata.category(character) for character in shown if character != "\n"} & {"Cc", "Cf", "Zl", "Zp"}


@given(st.text(alphabet=st.characters(codec="ascii", categories=["L", "N", "P", "S"])))
def test_plain_text_is_shown_as_it_is(text: str) -> None:
    assert output.printable(text) == text


@given(st.text())
def test_a_cell_is_one_line_of_bounded_length(text: str) -> None:
    shown = output.cell(text)
    assert "\n" not in shown
    assert len(shown) <= output.MAX_CELL


def test_a_table_is_aligned_numbers_to_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    output.table(("name", "calls"), [["a\x1b[2J", "5"], ["longer", "1200"]])
    assert capsys.readouterr().out == "name    calls\na�[2J       5\nlonger   1200\n"


def test_an_error_is_shown_with_its_way_out(capsys: pytest.CaptureFixture[str]) -> None:
    output.failure("no such\x07 run", "docket ls lists runs")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == "docket: no such� run\n        docket ls lists runs\n"


def test_no_command_prints_but_by_the_functions_that_know_a_reader_who_is_gone() -> None:
    """What is printed another way is taken for a fault of docket itself where it cannot be printed."""
    direct = []
    for file in sorted(Path(output.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Call(func=ast.Name(id="print")):
                    direct.append(f"{file.name}:{node.lineno}")
                case ast.Attribute(value=ast.Attribute(value=ast.Name(id="sys"), attr="stdout" | "stderr"), attr=what):
                    direct += [] if what in ("flush", "isatty", "fileno") else [f"{file.name}:{node.lineno}"]
    assert direct == []


def test_what_an_agent_chose_cannot_look_like_a_line_of_its_own() -> None:
    assert output.one_line("label\nverified: complete\x1b[2K") == "label�verified: complete�[2K"
