"""The first and the last event of a session, and the receipt over what stands between them.

Invariant: a receipt is written only after the last descendant is reaped, to a temporary name, synced and renamed; what
``session.end`` says and what the receipt says come from one fold.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from docket import __version__
from docket.errors import LedgerWriteError
from docket.ledger.chain import Entry
from docket.ledger.events import SessionStart
from docket.primitives.canonical import Json, JsonObject, encode
from docket.primitives.sealed import Entropy
from docket.primitives.signature import SigningKey
from docket.receipt import build
from docket.receipt.model import Anchor, Proven, Run, Start
from docket.receipt.totals import Totals
from docket.storage.durable import replace as replace_file
from docket.storage.paths import RECEIPT, RunDirectory
from docket.storage.record import Position
from docket.storage.writer import LedgerWriter

TOOL: JsonObject = {"name": "docket", "version": __version__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """Who signs: the run key, and the operator's where one was given."""

    run: SigningKey
    operator: SigningKey | None = None


def session_start(*, docket: str, keys: Keys, policy: str, prices: str, private: Mapping[str, Json]) -> SessionStart:
    """The first event of a first session; ``policy`` and ``prices`` are digests (evidence format section 2)."""
    endorsement: JsonObject | None = None
    if keys.operator is not None:
        said: JsonObject = {
            "continues": None,
            "docket": docket,
            "policy": policy,
            "prices": prices,
            "run_key": keys.run.public.hex(),
            "session": 0,
        }
        signed = keys.operator.sign(b"docket-endorse/1\x00" + encode(said))
        endorsement = {"alg": "ed25519", "key": keys.operator.public.hex(), "value": signed.hex()}
    return SessionStart(
        docket=docket,
        session=0,
        run_key=keys.run.public.hex(),
        policy=policy,
        prices=prices,
        tool=TOOL,
        platform=_platform(),
        endorsement=endorsement,
        private=private,
    )


async def seal(
    directory: RunDirectory,
    writer: LedgerWriter,
    totals: Totals,
    run: Run,
    keys: Keys,
    starts: Sequence[Entry],
    entropy: Entropy,
) -> Position:
    """End the ledger and write the receipt; gives what the receipt binds.

    Raises LedgerWriteError where the end could not be made durable, LedgerError where the receipt could not.
    """
    differences = await writer.compare()
    run = replace(run, evidence=replace(writer.condition.evidence, intact=not differences))
    before = await writer.checkpoint()
    end = await writer.append_watched(build.end_event(run, totals))
    position = await writer.checkpoint()
    if end is None or not position.covered:  # the end, or what vouches for it, is not durable: bind what is
        end, evidence = None, replace(position.evidence, ledger_complete=False, intact=not differences)
        position, run = before, replace(run, evidence=evidence)
        totals.activity.elapsed_us = before.elapsed_us
    anchor = Anchor(
        size=position.size,
        root=position.root,
        head=position.head,
        checkpoint=position.note,
        starts=tuple(Start(start=_proven(start, position)) for start in starts),
        end=_proven(end, position) if end is not None else None,
    )
    receipt = build.build(run, totals, anchor, entropy, operator=keys.operator is not None)
    line = build.to_line(build.sign(receipt, keys.run, keys.operator))
    try:
        replace_file(directory.disk, RECEIPT, line, directory.fd)
    except OSError as error:
        raise LedgerWriteError(f"the receipt could not be written: {error.strerror}") from error
    return position


def _proven(entry: Entry, position: Position) -> Proven:
    proof = position.proofs[entry.seq]
    return Proven(event=entry.to_json(), index=proof.index, size=proof.size, hashes=proof.hashes)


def _platform() -> JsonObject:
    return {"system": sys.platform, "machine": platform.machine(), "python": platform.python_version()}


def host_name() -> str:
    """The machine's name, for private members."""
    return os.uname().nodename
