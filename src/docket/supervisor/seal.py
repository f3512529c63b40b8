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

from docket import __version__
from docket.errors import LedgerWriteError
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


async def seal(
    directory: RunDirectory,
    writer: LedgerWriter,
    totals: Totals,
    run: Run,
    keys: Keys,
    sessions: Callable[[Position], tuple[Start, ...]],
    entropy: Entropy,
) -> Position:
    """End the ledger and write the receipt; gives what the receipt binds. ``sessions`` are the starts with proofs.

    Raises LedgerWriteError where the end could not be made durable, LedgerError where the receipt could not.
    """
    differences = await writer.compare()
    run = replace(run, evidence=replace(writer.condition.evidence, intact=not differences))
    before = await writer.checkpoint()
    end = await writer.append_watched(build.end_event(run, totals))
    position = await writer.checkpoint()
    if end is None or not position.covered:  # the end, or what vouches for it, is not durable: bind what is
        end, evidence = None, replace(position.evidence, ledger_complete=False, intact=not differences)
        position, run = replace(before, evidence=evidence), replace(run, evidence=evidence)
        totals.activity.elapsed_us = before.elapsed_us
    anchor = Anchor(
        size=position.size,
        root=position.root,
        head=position.head,
        checkpoint=position.note,
        starts=sessions(position),
        end=proven(end, position) if end is not None else None,
    )
    receipt = build.build(run, totals, anchor, entropy, operator=keys.operator is not None)
    line = build.to_line(build.sign(receipt, keys.run, keys.operator))
    try:
        replace_file(directory.disk, RECEIPT, line, directory.fd)
    except OSError as error:
        raise LedgerWriteError(f"the receipt could not be written: {error.strerror}") from error
    return position


def _platform() -> JsonObject:
    return {"system": sys.platform, "machine": platform.machine(), "python": platform.python_version()}


def host_name() -> str:
    """The machine's name, for private members."""
    return os.uname().nodename
