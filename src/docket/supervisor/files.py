"""The files of one run beside the event loop: read before the agent starts, read again when all is reaped, rolled
back after a breach.

Invariant: reading never runs on the event loop; nothing is rolled back while a process of the agent may live.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable

from docket.clock import Clock
from docket.errors import DocketError, PolicyError, UsageError
from docket.ledger.events import Event, FsSnapshot, RollbackApplied, RollbackRefused
from docket.policy.model import Files
from docket.primitives.canonical import Json
from docket.snapshot.capture import Progress
from docket.snapshot.directory import discard
from docket.snapshot.gitignore import Patterns
from docket.snapshot.manifest import text_to_json
from docket.snapshot.restore import roll_back
from docket.snapshot.scope import Scope, rules_above
from docket.snapshot.watch import FileWatch, Watched, bounded, weigh
from docket.storage.paths import RunDirectory
from docket.supervisor.announce import Announcer
from docket.supervisor.request import RunRequest

NOT_GIVEN_BACK = (
    "A restore gives back content, permissions, owner, links, directories and times of change; not which names share "
    "a file, extended attributes, access control lists, set-id bits, FIFOs, sockets and devices."
)
_SECOND_US = 1_000_000
_PENDING = 512
"""Events that are submitted before the first of them is waited for: bounds memory."""

Append = Callable[[Event], Awaitable[object]]


def watched(request: RunRequest) -> Watched:
    """What is watched in this run. Raises PolicyError for a pattern that could never match."""
    files = request.policy.files
    for key, patterns in (("ignore", files.ignore), ("deny_write", files.deny_write)):
        for pattern in patterns:
            if not Patterns([pattern]).sound:
                where = request.policy_file or "policy"
                raise PolicyError(f"{pattern!r} is no pattern of .gitignore", path=f"{where}: files.{key}")
    return Watched(
        cwd=request.cwd,
        docket_dir=request.docket_dir,
        scope=_scope(files, request),
        stored=request.snapshot,
        max_bytes=request.snapshot_max_bytes,
    )


def _scope(files: Files, request: RunRequest) -> Scope:
    gitignore = files.gitignore and not request.snapshot
    above = rules_above(os.path.realpath(request.cwd)) if gitignore else ()
    return Scope(watch=files.watch, ignore=files.ignore, deny_write=files.deny_write, gitignore=gitignore, above=above)


def check(request: RunRequest) -> None:
    """Raise UsageError for a pattern that is none, or a snapshot beyond its budget: before anything is made."""
    rules = watched(request)
    if request.snapshot:
        weigh(rules)


class RunFiles:
    """The files of one run."""

    def __init__(self, request: RunRequest, run: RunDirectory, announcer: Announcer, clock: Clock) -> None:
        """Raises PolicyError, UsageError."""
        self._rolls_back = request.rollback_on_breach
        self._run, self._announcer, self._clock = run, announcer, clock
        self._watch = FileWatch(run, watched(request), progress(announcer, clock))
        self._limits: list[str] = [NOT_GIVEN_BACK] if request.snapshot else []
        self._intact = True
        self._stored = request.snapshot

    @property
    def limits(self) -> tuple[str, ...]:
        """What the receipt says that it does not show of the files."""
        return tuple(self._limits)

    async def before(self) -> FsSnapshot:
        """Read the tree before the agent starts. Raises UsageError: then nothing is started."""
        try:
            event = await asyncio.to_thread(self._watch.before)
        except (DocketError, OSError) as error:
            discard(self._run)
            if isinstance(error, OSError):
                raise UsageError(
                    f"the files cannot be read and kept: {_reason(error)}", hint="run without --snapshot, or make room"
                ) from error
            raise
        finally:
            self._watch.stop_unless_done()
        self._say_of(event)
        return event

    async def after(self, append: Append, *, breached: bool, alive: bool) -> None:
        """Read the tree again, record what changed, and roll back where that was asked for. Raises LedgerError.

        ``alive``: a process of the agent may still be there.
        """
        pending: list[Awaitable[object]] = []
        try:
            events = await asyncio.to_thread(lambda: list(self._watch.after()))
        except (DocketError, OSError) as error:
            self._problem(f"The files could not be read after the run ({_reason(error)}): changes are not shown.")
            self._intact, events = False, []
        for event in events:
            pending.append(append(event))
            if len(pending) >= _PENDING:
                await asyncio.gather(*pending)
                pending.clear()
            if isinstance(event, FsSnapshot):
                self._say_of(event)
        await asyncio.gather(*pending)
        if breached and self._rolls_back:
            event = await asyncio.to_thread(self._roll_back, alive)
            await append(event)

    def close(self) -> None:
        """Let go of the descriptors."""
        self._watch.close()

    def _say_of(self, event: FsSnapshot) -> None:
        if event.intact is False:
            self._intact = False
            self._problem("The record of the files before the run was changed during it: what changed is not known.")
        if event.uncovered:
            missing = (
                f"Files {event.when} the run: {event.uncovered} paths could not be read or are not wholly covered; "
                "the ledger names the first of them."
            )
            self._limits.append(missing)
            if self._stored:
                self._announcer.problem(f"the snapshot is not whole: {missing}")
        if event.ignored and event.when == "before":
            self._limits.append(f"{event.ignored} paths are left out by rule (.gitignore, [files]) and not watched.")
        if event.unlisted:
            self._limits.append(f"{event.unlisted} changed files have no event of their own: they are counted only.")

    def _problem(self, text: str) -> None:
        self._limits.append(text)
        self._announcer.problem(text)

    def _roll_back(self, alive: bool) -> RollbackApplied | RollbackRefused:
        if alive:
            return self._refused("survivors", "a process of the agent may still be there")
        if not self._intact:
            return self._refused("record-changed", "what the run changed is not known")
        try:
            results, record = roll_back(self._run, self._watch, self._clock.unix_us())
        except (DocketError, OSError) as error:
            return self._refused("error", _reason(error))
        counts = Counter(result.outcome for result in results)
        self._announcer.problem(
            "files rolled back: " + (", ".join(f"{n} {word}" for word, n in counts.items()) or "none")
        )
        paths: list[Json] = [
            {"path": text_to_json(result.path), "outcome": result.outcome, "reason": result.reason}
            for result in results
        ]
        return RollbackApplied(
            done=counts["done"],
            already=counts["already there"],
            left=counts["left"],
            refused=counts["refused"],
            failed=counts["failed"],
            private={"paths": bounded(paths), "record": record},
        )

    def _refused(self, reason: str, detail: str) -> RollbackRefused:
        self._announcer.problem(f"files are not rolled back: {detail}")
        return RollbackRefused(reason=reason, private={"detail": detail})


def _reason(error: Exception) -> str:
    return (error.strerror or "input/output error") if isinstance(error, OSError) else str(error)


def progress(announcer: Announcer, clock: Clock) -> Progress:
    """Says how far a walk is once it takes over a second, and then every second."""
    said_us = clock.monotonic_us()

    def tell(entries: int, size: int) -> None:
        nonlocal said_us
        now_us = clock.monotonic_us()
        if now_us - said_us >= _SECOND_US:
            said_us = now_us
            announcer.remark(f"reading files: {entries:,} entries, {size / 1e6:,.0f} MB")

    return tell
