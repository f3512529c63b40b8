"""The first and the last event of a session, and the receipt over what stands between them.

Invariant: a receipt is written only after the last descendant is reaped, to a temporary name, synced and renamed; what
``session.end`` says and what the receipt says come from one fold.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from docket import __version__
from docket.errors import LedgerWriteError
from docket.findings.fold import Findings
from docket.ledger.chain import Entry
from docket.ledger.events import Continues, SessionStart
from docket.primitives.canonical import Json, JsonObject, encode
from docket.primitives.sealed import Entropy
from docket.primitives.signature import SigningKey
from docket.receipt import build
from docket.receipt.model import Anchor, Run, Start
from docket.receipt.totals import Totals
from docket.storage.durable import replace as replace_file
from docket.storage.paths import RECEIPT, RunDirectory
from docket.storage.record import Position
from docket.storage.writer import LedgerWriter
from docket.supervisor.ledger_history import proven
from docket.supervisor.second_place import leave

TOOL: JsonObject = {"name": "docket", "version": __version__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """Who signs: the run key, and the operator's where one was given."""

    run: SigningKey
    operator: SigningKey | None = None


def session_start(
    *,
    docket: str,
    keys: Keys,
    policy: str,
    prices: str,
    private: Mapping[str, Json],
    session: int = 0,
    continues: Continues | None = None,
) -> SessionStart:
    """The first event of a session; ``policy`` and ``prices`` are digests (evidence format sections 2 and 3)."""
    endorsement: JsonObject | None = None
    if keys.operator is not None:
        said: JsonObject = {
            "continues": None if continues is None else asdict(continues),
            "docket": docket,
            "policy": policy,
            "prices": prices,
            "run_key": keys.run.public.hex(),
            "session": session,
        }
        signed = keys.operator.sign(b"docket-endorse/1\x00" + encode(said))
        endorsement = {"alg": "ed25519", "key": keys.operator.public.hex(), "value": signed.hex()}
    return SessionStart(
        docket=docket,
        session=session,
        run_key=keys.run.public.hex(),
        policy=policy,
        prices=prices,
        tool=TOOL,
        platform=_platform(),
        endorsement=endorsement,
        continues=continues,
        private=private,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """What a run came to, and where its receipt is."""

    run: Run
    position: Position
    receipt: bytes
    place: Path | None
    """None where no directory took it: it goes to stderr."""
    problem: str | None = None
    """Why it is not in the run directory, if it is not."""


async def seal(
    directory: RunDirectory,
    writer: LedgerWriter,
    totals: Totals,
    findings: Findings,
    run_of: Callable[[], Run],
    keys: Keys,
    sessions: Callable[[Position], tuple[Start, ...]],
    entropy: Entropy,
    elsewhere: tuple[Path, ...],
) -> Sealed:
    """End the ledger and write the receipt, into the run directory or else ``elsewhere``; return what that came to.

    ``run_of`` says what is known of the run now; ``sessions`` are the starts with proofs. Raises LedgerError where the
    writer itself has ended.
    """
    await writer.release_reserve()
    differences = await writer.compare()
    run = run_of()
    run = replace(run, evidence=replace(writer.condition.evidence, intact=not differences))
    before = await writer.checkpoint()
    end = await _last_event(writer, run, totals)
    position = await writer.checkpoint()
    if end is None or not position.covered:  # the end, or what vouches for it, is not durable: bind what is
        evidence = replace(position.evidence, ledger_complete=False, intact=not differences)
        position, end = replace(position if end is None else before, evidence=evidence), None
        run = replace(run_of(), evidence=evidence)
        totals.activity.elapsed_us = before.elapsed_us

    def receipt(run: Run, position: Position, end: Entry | None) -> bytes:
        anchor = Anchor(
            size=position.size,
            root=position.root,
            head=position.head,
            checkpoint=position.note,
            starts=sessions(position),
            end=proven(end, position) if end is not None else None,
        )
        document = build.build(run, totals, findings.found(), anchor, entropy, operator=keys.operator is not None)
        return build.to_line(build.sign(document, keys.run, keys.operator))

    try:
        if not position.note:
            raise LedgerWriteError("there is no checkpoint that a receipt could quote")
        line = receipt(run, position, end)
        replace_file(directory.disk, RECEIPT, line, directory.fd)
    except (OSError, LedgerWriteError) as error:
        why = f"the receipt could not be written into {directory.path}: {getattr(error, 'strerror', None) or error}"
    else:
        return Sealed(run=run, position=position, receipt=line, place=directory.where() / RECEIPT)
    position = await writer.memory()
    evidence = replace(position.evidence, intact=not differences)
    position, run = replace(position, evidence=evidence), replace(run_of(), kind="from-memory", evidence=evidence)
    totals.activity.elapsed_us = position.elapsed_us
    line = receipt(run, position, None)
    place = leave(run.docket, line, elsewhere)
    return Sealed(run=run, position=position, receipt=line, place=place, problem=why)


async def _last_event(writer: LedgerWriter, run: Run, totals: Totals) -> Entry | None:
    """Record ``session.end``; return its entry, None where it is lost."""
    try:
        return await writer.append_watched(build.end_event(run, totals))
    except LedgerWriteError:  # a failure that ends a run has ended this one
        return None


def _platform() -> JsonObject:
    return {"system": sys.platform, "machine": platform.machine(), "python": platform.python_version()}


def host_name() -> str:
    """The machine's name, for private members."""
    return os.uname().nodename
