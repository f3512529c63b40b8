"""Verify what a test holds in memory."""

from __future__ import annotations

from docket.verify.context import Documents, Pins
from docket.verify.report import Report
from docket.verify.verifier import verify
from kit.recordings import Files


def report_on(files: Files, *, pins: Pins | None = None, chunk: int = 1 << 20) -> Report:
    """The report on a run directory with these files."""
    ledger = files.get("ledger.jsonl")
    return verify(
        Documents(
            receipt=files.get("receipt.json"),
            ledger=None if ledger is None else _chunks(ledger, chunk),
            checkpoints=None if ledger is None else _chunks(files.get("checkpoints", b""), chunk),
        ),
        pins,
    )


def verdict_on(files: Files) -> tuple[str, str]:
    """The verdict on a run directory, and the first failing check ("" if none failed)."""
    report = report_on(files)
    return str(report.verdict), report.failure.check if report.failure else ""


def _chunks(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]
