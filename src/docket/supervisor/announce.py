"""What a run says to the person at the terminal, on stderr, and its summary in Markdown.

Owns the two lines that count (docket number with run key before the agent starts, ledger root after the last reap).
Writes nothing to stdout: that belongs to the agent.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TextIO, cast

from docket.errors import UsageError
from docket.ledger.events import CapExceeded, CapWarning
from docket.primitives.canonical import JsonObject
from docket.primitives.printable import one_line
from docket.storage.durable import SystemDisk, replace
from docket.supervisor.lifecycle import Stop
from docket.supervisor.unblocked_stream import UnblockedStream, unblocked

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
"""Names the file that a CI job shows as its summary (GitHub Actions, workflow commands)."""


class Announcer:
    """Lines on stderr, for which nothing ever waits. ``quiet`` leaves errors and the two lines that count."""

    def __init__(self, *, quiet: bool, stream: TextIO | None = None) -> None:
        self._quiet = quiet
        self._stream: TextIO | UnblockedStream = unblocked(stream or sys.stderr)

    def close(self) -> None:
        """Give a slow reader a moment to take what was said."""
        if isinstance(self._stream, UnblockedStream):
            self._stream.close()

    def run_key(self, docket: str, public: bytes) -> None:
        self._say(f"docket: {docket} run key {public.hex()}")

    def root(self, docket: str, root: str) -> None:
        self._say(f"docket: {docket} root {root}")

    def remark(self, text: str) -> None:
        """Something a person may want to know."""
        if not self._quiet:
            self._say(f"docket: {text}")

    def problem(self, text: str) -> None:
        """Something a person must know."""
        self._say(f"docket: {text}")

    def warned(self, event: CapWarning) -> None:
        self.remark(f"{event.cap}: {event.observed} of {event.limit} used")

    def breached(self, event: CapExceeded, *, kill: bool) -> None:
        consequence = "stopping the agent" if kill else "further calls are refused"
        self.problem(f"{event.cap} reached: {event.observed} of {event.limit}; {consequence}")

    def stopping(self, stop: Stop, detail: str) -> None:
        self.problem(f"stopping the agent ({stop.value}): {detail}")

    def line(self, document: bytes) -> None:
        """One document, as it is."""
        self._say(document.decode().rstrip("\n"))

    def _say(self, text: str) -> None:
        try:
            self._stream.write(one_line(text) + "\n")
            self._stream.flush()
        except OSError:
            return  # a vanished terminal must not end the run: the ledger says the same


def figures(totals: JsonObject) -> str:
    """One line of a receipt's ``totals`` for people."""
    calls, denied = cast(int, totals["calls"]), cast(int, totals["denied"])
    words = [f"{calls} call" if calls == 1 else f"{calls} calls"]
    if denied:
        words.append(f"{denied} refused")
    cost = totals.get("cost_usd")
    if cost is not None:
        words.append({"exact": "", "approximate": "about "}.get(str(totals["cost_is"]), "at least ") + f"${cost}")
    elif calls:
        words.append("cost unknown")
    return ", ".join(words)


def summary(docket: str, label: str | None, outcome: str, totals: JsonObject, root: str) -> str:
    """The run in Markdown."""
    title = f"### docket {docket}" + (f": {label}" if label else "")
    rows = [
        ("outcome", outcome),
        ("calls", str(totals["calls"])),
        ("refused", str(totals["denied"])),
        ("errors", str(totals["errors"])),
        ("cost (USD)", f"{totals.get('cost_usd', 'unknown')} ({totals['cost_is']})"),
        ("ledger root", f"`{root}`"),
    ]
    table = "\n".join(f"| {name} | {value} |" for name, value in rows)
    return f"{title}\n\n| | |\n| --- | --- |\n{table}\n"


def write_summaries(text: str, file: Path | None, environ: Mapping[str, str]) -> Iterable[str]:
    """Write the summary to ``file`` and append it to the CI job's; yields what could not be written."""
    if file is not None:
        try:
            _write(file, text.encode())
        except OSError as error:
            yield f"cannot write the summary file {file}: {error.strerror}"
    if step := environ.get(STEP_SUMMARY):
        try:
            with open(step, "a", encoding="utf-8") as stream:
                stream.write(text)
        except OSError as error:
            yield f"cannot append to {STEP_SUMMARY}: {error.strerror}"


def _write(file: Path, data: bytes) -> None:
    """Replace ``file``, also one that an agent made a link; a device or a pipe is written to, if anybody reads."""
    try:
        special = not stat.S_ISREG(os.stat(file).st_mode)
    except OSError:
        special = False  # nothing there, or a link to nothing
    if special:
        descriptor = os.open(file, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.write(descriptor, data)
        finally:
            os.close(descriptor)
        return
    directory = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        replace(SystemDisk(), file.name, data, directory)
    finally:
        os.close(directory)


def check_summary_file(file: Path | None) -> None:
    """Raise UsageError where the summary could not be written at the end."""
    if file is not None and not file.parent.is_dir():
        raise UsageError(f"--summary-file: {file.parent} is not a directory")
