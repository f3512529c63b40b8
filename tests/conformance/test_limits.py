"""Limits that are too large to commit as vectors, and the tails of a ledger at every byte: in every verifier."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.catalog import VECTORS
from conformance.scene import edit_bare, edit_line, put, short, with_data
from conformance.test_vectors import first_failure
from conformance.verifiers import verifier
from docket.primitives.canonical import JsonObject
from kit.recordings import DOCKET, Files, Recording, write

MAX_LINE = 1 << 20
PROGRAMS = ("python", "js", "go")


def line_of(length: int, *, private: int = 0) -> Files:
    """A ledger whose event 1 takes ``length`` bytes with its LF, with so many short private members."""

    def made(filler: int) -> Files:
        run = Recording()
        run.start()
        members = {f"m{number:05}": "" for number in range(private)}
        run.add("note", {"text": "x" * filler}, private=members or None)
        return {"ledger.jsonl": run.ledger_files()["ledger.jsonl"]}

    short_of = length - len(made(0)["ledger.jsonl"].splitlines(keepends=True)[1])
    files = made(short_of)
    assert len(files["ledger.jsonl"].splitlines(keepends=True)[1]) == length
    return files


def rows(number: int, *, keep: bool) -> Files:
    """A bare receipt over ``number`` rows."""
    run = Recording()
    run.start()
    run.note()
    usage: JsonObject = {"source": "reported", "items": [], "cost_usd": "0"}
    for call in range(1, number + 1):
        run.add("model.request", {"call": call}, by="boundary")
        data: JsonObject = {
            "call": call,
            "provider": "p",
            "model": "m",
            "tier": "t",
            "upstream": "u",
            "reason": "complete",
            "usage": usage,
        }
        run.add("model.response", data, by="boundary")
    run.end()
    files = run.files()
    receipt = {"receipt.json": files["receipt.json"]}
    assert (b'"rows":[{"call"' in receipt["receipt.json"]) == (number <= 10_000)
    if keep and number > 10_000:
        every = [
            {
                "call": line.data["call"],
                "model": "m",
                "provider": "p",
                "seq": line.seq,
                "tier": "t",
                "upstream": "u",
                "usage": usage,
            }
            for line in run.lines
            if line.type == "model.response"
        ]
        return {"receipt.json": run.files(edit=put("usage.rows", every))["receipt.json"]}
    return receipt


SCENES: dict[str, tuple[Callable[[], Files], str, str]] = {
    "the longest line": (lambda: line_of(MAX_LINE), "unfinished", ""),
    "a line of one byte more": (lambda: line_of(MAX_LINE + 1), "failed", "ledger.form"),
    "a line that fits with its members withheld": (lambda: line_of(MAX_LINE - 27 * 100, private=100), "unfinished", ""),
    "a line that would not": (lambda: line_of(MAX_LINE - 27 * 100 + 1, private=100), "failed", "ledger.form"),
    "a fragment of one byte less than a line may have": (
        lambda: {"ledger.jsonl": with_data({})["ledger.jsonl"] + b"x" * (MAX_LINE - 1)},
        "unfinished",
        "",
    ),
    "a fragment as long as a line": (
        lambda: {"ledger.jsonl": with_data({})["ledger.jsonl"] + b"x" * MAX_LINE},
        "failed",
        "ledger.form",
    ),
    "a first fragment as long as a line": (lambda: {"ledger.jsonl": b"x" * MAX_LINE}, "failed", "ledger.form"),
    "a line of five mebibytes": (
        lambda: edit_line(with_data({}), 1, lambda line: b"[" * (5 << 20) + b"\n"),
        "failed",
        "ledger.form",
    ),
    "a line nested two hundred thousand deep": (
        lambda: edit_line(with_data({}), 1, lambda line: b"[" * 200_000 + b"]" * 200_000 + b"\n"),
        "failed",
        "ledger.form",
    ),
    "a receipt of 16 MiB": (lambda: receipt_of(16 << 20), "verified", ""),
    "a receipt of one byte more": (lambda: receipt_of((16 << 20) + 1), "unreadable", ""),
    "a receipt of 524,288 commas and brackets": (lambda: marks_of(1 << 19), "verified", ""),
    "one comma more": (lambda: marks_of((1 << 19) + 1), "unreadable", ""),
    "ten thousand rows": (lambda: rows(10_000, keep=True), "verified", ""),
    "ten thousand and one rows, left out": (lambda: rows(10_001, keep=False), "verified", ""),
    "ten thousand and one rows, embedded": (lambda: rows(10_001, keep=True), "failed", "receipt.form"),
    "sixty-five thousand open calls": (lambda: open_calls(65_536), "unfinished", ""),
    "one open call more": (lambda: open_calls(65_537), "failed", "ledger.calls"),
}


def receipt_of(size: int) -> Files:
    """A bare receipt of ``size`` bytes."""
    base = len(edit_bare(short(), put("limits", [""]), sign=True)["receipt.json"])
    filler = min(size, 16 << 20) - base
    files = edit_bare(short(), put("limits", ["x" * filler]), sign=True)
    if size > 16 << 20:  # docket itself writes none so large
        more = b"x" * (1 + size - (16 << 20))
        files = {"receipt.json": files["receipt.json"].replace(b'"limits":["x', b'"limits":["' + more, 1)}
    assert len(files["receipt.json"]) == size
    return files


def marks_of(number: int) -> Files:
    """A bare receipt with so many of the bytes ``,``, ``[`` and ``{``."""

    def filled(filler: str) -> bytes:
        return edit_bare(short(), put("limits", [filler]), sign=True)["receipt.json"]

    data = filled("," * (min(number, 1 << 19) - sum(map(filled("").count, (b",", b"[", b"{")))))
    if number > 1 << 19:
        data = data.replace(b'"limits":[",', b'"limits":[",,', 1)
    assert sum(map(data.count, (b",", b"[", b"{"))) == number
    return {"receipt.json": data}


def open_calls(number: int) -> Files:
    """A ledger with so many calls open."""
    run = Recording(docket=DOCKET)
    run.start()
    for call in range(1, number + 1):
        run.add("model.request", {"call": call}, by="boundary")
    return {"ledger.jsonl": run.ledger_files()["ledger.jsonl"]}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("scene", list(SCENES)[:7])
def test_limits_of_a_line(scene: str, program: str, tmp_path: Path) -> None:
    _judge(scene, program, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("scene", SCENES)
def test_every_limit(scene: str, program: str, tmp_path: Path) -> None:
    _judge(scene, program, tmp_path)


def _judge(scene: str, program: str, tmp_path: Path) -> None:
    make, verdict, check = SCENES[scene]
    tried = verifier(program)
    (answer,) = tried.batch([write(make(), tmp_path / "run")])
    assert (answer[0], first_failure(answer)) == (verdict, check)


KEPT = ("all", "no later checkpoint", "ledger alone")


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("kept", KEPT)
def test_tails_cut_at_some_bytes_of_the_last_two_lines(program: str, kept: str) -> None:
    _cut_tails(program, kept, step=23)


@pytest.mark.long
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("kept", KEPT)
def test_tails_cut_at_every_byte_of_the_last_two_lines(program: str, kept: str) -> None:
    _cut_tails(program, kept, step=1)


def _cut_tails(program: str, kept: str, step: int) -> None:
    tried = verifier(program)
    (directory,) = VECTORS.glob("receipt/*-accept-run-directory")
    files = {name: (directory / name).read_bytes() for name in ("ledger.jsonl", "checkpoints", "receipt.json")}
    ledger, first = files["ledger.jsonl"], files["checkpoints"].splitlines(keepends=True)[:5]
    begins = len(ledger) - sum(map(len, ledger.splitlines(keepends=True)[-2:]))
    with tempfile.TemporaryDirectory() as scratch:
        paths = []
        for end in range(begins, len(ledger), step):
            cut = {**files, "ledger.jsonl": ledger[:end]}
            if kept == "no later checkpoint":
                cut["checkpoints"] = b"".join(first)
            elif kept == "ledger alone":
                cut = {"ledger.jsonl": ledger[:end]}
            paths.append(write(cut, Path(scratch) / str(end)))
        verdicts = {answer[0] for answer in tried.batch(paths)}
    assert verdicts == {"unfinished" if kept == "ledger alone" else "failed"}
