"""A run whose ledger grows under a test's hand: lines, notes and lock as a docket leaves them on the disk."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from docket.ledger import checkpoint
from docket.ledger.chain import Chain
from docket.ledger.codec import draft
from docket.ledger.events import Event, Note
from docket.storage.lock import Lock
from docket.storage.paths import CHECKPOINTS, LEDGER, RunDirectory
from kit.runs import KEY, NUMBER, session_end, session_start


class GrowingRun:
    """A run that goes on: held by a lock of this process, until ``release``."""

    def __init__(self, root: Path, number: str = NUMBER) -> None:
        self.directory = RunDirectory.create(root / ".docket", number)
        self.path = self.directory.path
        self.chain = Chain()
        self.lock: Lock | None = Lock(self.directory)
        self.append([session_start(number)])
        self.attest()

    def append(self, events: Iterable[Event]) -> None:
        """Write further events; nobody vouches for them yet."""
        with (self.path / LEDGER).open("ab") as stream:
            for event in events:
                _, line, _ = self.chain.extend(
                    draft(event), ts="2026-11-30T10:00:00.000000Z", elapsed_us=self.chain.size, entropy=os.urandom
                )
                stream.write(line)

    def note(self, text: str) -> Note:
        return Note(private={"text": text})

    def attest(self) -> None:
        """Sign for every event so far."""
        with (self.path / CHECKPOINTS).open("ab") as stream:
            stream.write(checkpoint.sign(self.directory.name, self.chain.size, self.chain.root(), KEY))

    def grow(self, notes: int) -> None:
        """Write that many durable notes."""
        self.append(self.note(str(number)) for number in range(notes))
        self.attest()

    def end(self) -> None:
        """End in order."""
        self.append([session_end()])
        self.attest()
        self.release()

    def release(self) -> None:
        """Let go of the run, as an end or a death does."""
        if self.lock is not None:
            self.lock.release()
            self.lock = None
