"""Verdicts on whole, cut, reordered and altered runs."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest

from docket.primitives.canonical import decode_object
from docket.receipt import build
from docket.receipt.model import Evidence
from docket.verify.context import Pins
from docket.verify.verifier import CHECKS
from kit.recordings import Files, Recording, bill, key, small
from kit.verifying import report_on, verdict_on

OPERATOR = key("operator")


def ten_events() -> Files:
    run = small(calls=2)
    files = run.files()
    assert files["ledger.jsonl"].count(b"\n") == 9
    run = Recording()
    run.start()
    run.note()
    for _ in range(4):
        run.call()
    run.end()
    files = run.files()
    assert files["ledger.jsonl"].count(b"\n") == 10
    return files


def without(files: Files, *names: str) -> Files:
    return {name: data for name, data in files.items() if name not in names}


def relined(files: Files, lines: list[bytes]) -> Files:
    return {**files, "ledger.jsonl": b"".join(lines)}


def test_a_whole_run_verifies_and_no_check_is_left_unsaid() -> None:
    report = report_on(small(OPERATOR).files())
    assert report.verdict == "verified"
    assert [finding.check for finding in report.findings] == [check for check, _ in CHECKS]
    assert {finding.check for finding in report.findings if finding.status == "skip"} == {
        "proof.form",
        "proof.event",
        "proof.inclusion",
        "proof.checkpoint",
        "pin.run_key",
        "pin.root",
        "pin.operator",
    }
    assert [(voucher.role, voucher.pinned) for voucher in report.vouchers] == [("run", False), ("operator", False)]


def test_a_bare_receipt_verifies_and_says_what_it_cannot_show() -> None:
    report = report_on(without(small().files(), "ledger.jsonl", "checkpoints"))
    assert report.verdict == "verified"
    skipped = {finding.check for finding in report.findings if finding.detail == "needs the ledger"}
    assert {"against.totals", "against.latency", "against.activity", "binding.root", "calls.open"} <= skipped


@pytest.mark.parametrize("cut", range(1, 11))
def test_cutting_off_the_end_never_verifies(cut: int) -> None:
    files = ten_events()
    lines = files["ledger.jsonl"].splitlines(keepends=True)
    shorter = relined(files, lines[:-cut])
    report = report_on(shorter)
    assert report.verdict == "failed"
    assert report.failure is not None
    assert "missing at the end" in report.failure.detail or "every event is missing" in report.failure.detail
    alone = report_on(without(shorter, "receipt.json", "checkpoints"))
    assert alone.verdict == ("unreadable" if cut == 10 else "unfinished")
    assert verdict_on(without(shorter, "receipt.json"))[0] == ("unreadable" if cut == 10 else "failed")


@pytest.mark.parametrize("cut", range(1, 10))
def test_cutting_off_the_beginning_names_what_is_missing(cut: int) -> None:
    files = ten_events()
    lines = files["ledger.jsonl"].splitlines(keepends=True)
    for given in (files, without(files, "receipt.json"), without(files, "receipt.json", "checkpoints")):
        report = report_on(relined(given, lines[cut:]))
        assert report.verdict == "failed"
        assert report.failure is not None
        assert report.failure.check == "ledger.seq"
        assert "missing" in report.failure.detail


@pytest.mark.parametrize("at", range(1, 9))
def test_a_line_dropped_doubled_or_swapped_is_named(at: int) -> None:
    files = ten_events()
    lines = files["ledger.jsonl"].splitlines(keepends=True)
    dropped = report_on(relined(files, lines[:at] + lines[at + 1 :])).failure
    doubled = report_on(relined(files, lines[: at + 1] + lines[at:])).failure
    swapped = report_on(relined(files, [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]])).failure
    assert dropped is not None
    assert doubled is not None
    assert swapped is not None
    assert dropped.check == doubled.check == swapped.check == "ledger.seq"
    assert f"{at} missing" in dropped.detail
    assert "two writers" in doubled.detail


def test_a_sealed_ledger_without_its_receipt_is_unsealed_not_verified() -> None:
    report = report_on(without(ten_events(), "receipt.json"))
    assert report.verdict == "unsealed"
    assert "completeness cannot be shown" in report.reason
    assert report.verdict.exit_code == 3


@pytest.mark.parametrize("bound", [True, False])
def test_a_tail_cut_at_any_byte_of_the_last_two_lines(bound: bool) -> None:
    files = ten_events()
    ledger = files["ledger.jsonl"]
    lines = ledger.splitlines(keepends=True)
    for end in range(len(ledger) - len(lines[-1]) - len(lines[-2]), len(ledger)):
        cut = {**files, "ledger.jsonl": ledger[:end]}
        if bound:
            assert verdict_on(cut)[0] == "failed"
        else:
            report = report_on(without(cut, "receipt.json", "checkpoints"))
            assert report.verdict == "unfinished"
            assert any("torn" in remark for remark in report.remarks) == (ledger[end - 1 : end] != b"\n")


def test_chunks_do_not_matter() -> None:
    files = small(OPERATOR).files()
    expected = report_on(files).to_json()
    for chunk in (1, 7, 100):
        assert report_on(files, chunk=chunk).to_json() == expected


@pytest.mark.parametrize("name", ["ledger.jsonl", "checkpoints", "receipt.json"])
def test_every_single_byte_change_changes_the_verdict(name: str) -> None:
    """A seeded third of the positions here; the long twin does all of them."""
    _sweep(name, sample=3)


@pytest.mark.long
@pytest.mark.parametrize("name", ["ledger.jsonl", "checkpoints", "receipt.json"])
def test_every_single_byte_change_changes_the_verdict_whole(name: str) -> None:
    _sweep(name, sample=1)


def _sweep(name: str, sample: int) -> None:
    files = small(OPERATOR, calls=1).files()
    data = files[name]
    assert report_on(files).verdict == "verified"
    survivors = []
    positions = random.Random(20261130).sample(range(len(data)), len(data) // sample)
    for at in positions:
        for flip in (0x01, 0x20, 0x80):
            altered = bytearray(data)
            altered[at] ^= flip
            if report_on({**files, name: bytes(altered)}).verdict in ("verified", "incomplete", "recovered"):
                survivors.append((at, flip))
    assert survivors == []


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every member and element below ``value``, the private values and the containers themselves left out."""
    if isinstance(value, dict):
        return [found for name in value for found in paths_of(value[name], (*path, name))]
    if isinstance(value, list) and value:
        return [found for at, each in enumerate(value) for found in paths_of(each, (*path, at))]
    return [path]


def altered(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return ("1" if value[:1] != "1" else "2") + value[1:]
    return [*value, "x"] if isinstance(value, list) else {"x": 1}


def test_changing_any_member_of_a_receipt_fails_a_check_that_names_it() -> None:
    """With the ledger and without it; what only a signature covers is named by the signature's check."""
    run = small(OPERATOR)
    ledger = run.ledger_files()
    signed = run.files()["receipt.json"][:-1]
    unnamed = []
    for path in paths_of(decode_object(signed)):
        changed = decode_object(signed)
        holder: Any = changed
        for step in path[:-1]:
            holder = holder[step]
        holder[path[-1]] = altered(holder[path[-1]])
        line = build.to_line(changed)
        for files in ({**ledger, "receipt.json": line}, {"receipt.json": line}):
            report = report_on(files)
            if path == ("format",):
                assert report.verdict == "unreadable"
                continue
            failure = report.failure
            assert failure is not None, path
            named = failure.check.startswith(("signature.", "checkpoint", "binding.", "starts.", "end."))
            if not named and path[0] not in failure.detail:
                unnamed.append((path, failure))
    assert unnamed == []


BOUND = re.compile(
    r"(docket|policy|prices|totals|usage|latency|caps\.(usd|tokens)\.billed|caps\.(calls|wall_us)\.booked"
    r"|files|network|tools|resilience|enforcement\.violations|ledger|starts|end|signatures"
    r"|session\.(elapsed_us|orphans|survivors|sessions|drill|outcome|exit))\b"
)
"""Members that the ledger or another member fixes, even for a holder of the run key."""


def test_a_holder_of_the_run_key_cannot_change_what_the_ledger_fixes() -> None:
    run = small(OPERATOR)
    ledger = run.ledger_files()
    base = run.unsigned()
    uncovered = []
    for path in paths_of(base):
        name = ".".join(map(str, path))
        if (
            not BOUND.match(name)
            or ".private." in f".{name}."
            or (name.startswith("prices.tables.0.") and "digest" not in name)
        ):
            continue
        changed = run.unsigned()
        holder: Any = changed
        for step in path[:-1]:
            holder = holder[step]
        holder[path[-1]] = altered(holder[path[-1]])
        report = report_on({**ledger, "receipt.json": build.to_line(run.signed(changed))})
        if report.failure is None or report.failure.check.startswith("signature"):
            uncovered.append((name, report.verdict))
    assert uncovered == []


def test_pins_that_do_not_match_fail_and_pins_that_do_are_said() -> None:
    run = small(OPERATOR)
    files = run.files()
    right = Pins(run_key=run.sessions[0].key.public.hex(), root=run.root, operator=OPERATOR.public.hex())
    report = report_on(files, pins=right)
    assert report.verdict == "verified"
    assert all(voucher.pinned for voucher in report.vouchers)
    other = "0" * 64
    for name, check in (("run_key", "pin.run_key"), ("root", "pin.root"), ("operator", "pin.operator")):
        failure = report_on(files, pins=Pins(**{name: other})).failure
        assert failure is not None
        assert failure.check == check


def test_disclosed_losses_are_incomplete_and_not_verified() -> None:
    run = Recording(evidence=Evidence(ledger_complete=False, unwritten_events=1, first_failing_seq=3, gaps={"note": 1}))
    run.start()
    run.call()
    run.end()
    assert verdict_on(run.files()) == ("incomplete", "")


def test_a_recovered_run_needs_its_ledger() -> None:
    run = Recording(outcome="lost", exit={})
    run.start()
    run.note()
    run.call()
    run.request()
    files = run.files(kind="recovered")
    assert verdict_on(files) == ("recovered", "")
    assert verdict_on(without(files, "ledger.jsonl", "checkpoints")) == ("incomplete", "")


def test_a_withheld_value_changes_nothing_but_what_is_listed() -> None:
    run = small(OPERATOR)
    files = run.files()
    ledger = files["ledger.jsonl"]
    opened = re.search(rb'"cwd":\{"salt":"[0-9a-f]{32}","value":"/home/ada"\}', ledger)
    assert opened is not None
    start = decode_object(ledger.splitlines()[0])
    from docket.primitives.sealed import seal

    commitment = seal(start)["private"]["cwd"]  # type: ignore[call-overload,index]
    redacted = ledger.replace(opened[0], b'"cwd":{"commitment":"%s"}' % commitment.encode(), 1)
    report = report_on({**files, "ledger.jsonl": redacted})
    assert report.verdict == "verified"
    assert report.withheld == {"cwd": 1}


def test_a_million_rows_need_no_embedding() -> None:
    """Above the stated number rows are absent, and the checks of rows say what they need."""
    run = small()
    files = run.files(edit=lambda receipt: receipt["usage"].pop("rows"))
    report = report_on(files)
    assert report.verdict == "verified"
    skipped = {finding.check: finding.detail for finding in report.findings if finding.status == "skip"}
    assert "needs the ledger" in skipped["usage.rows"]
    bare = report_on({"receipt.json": files["receipt.json"]})
    assert bare.verdict == "verified"


def test_the_cost_may_be_off_by_nothing() -> None:
    run = Recording()
    run.start()
    usage = bill(input=1)
    usage["cost_usd"] = "0.000003000001"
    run.call(usage)
    run.end()
    run.note()
    assert verdict_on(run.files()) == ("failed", "ledger.usage")


def test_garbage_never_raises(tmp_path: Path) -> None:
    dice = random.Random(7)
    files = small().files()
    for _ in range(300):
        name = dice.choice(sorted(files))
        data = bytearray(files[name])
        for _ in range(dice.randint(1, 8)):
            at = dice.randrange(len(data))
            data[at : at + dice.randint(0, 30)] = bytes(dice.randrange(256) for _ in range(dice.randint(0, 30)))
        assert report_on({**files, name: bytes(data)}).verdict in ("failed", "unreadable")


def test_the_short_reading_of_usual_lines_and_the_careful_one_agree() -> None:
    """Every vector with a ledger, read with and without the short way: one report."""
    from unittest.mock import patch

    from conformance.catalog import catalogue

    for vector in catalogue():
        files = vector.make()
        if "ledger.jsonl" in files:
            with patch("docket.verify.fast_path.read", return_value=None):
                careful = report_on(files).to_json()
            assert report_on(files).to_json() == careful, vector.name
