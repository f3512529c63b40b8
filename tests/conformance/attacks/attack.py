"""What an attack is, and the real runs that attacks start from."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docket.primitives.canonical import decode_object, encode
from kit.installed import Installed, Provider
from kit.recordings import Files

DOCUMENTS = ("ledger.jsonl", "checkpoints", "receipt.json")
CALLS = """
for i in 1 2 3; do
  curl -s -o /dev/null -H 'content-type: application/json' -d '{"model":"gpt-4o","messages":[]}' \
    "$OPENAI_BASE_URL/chat/completions"
done
"""


@dataclass(frozen=True)
class Runs:
    """The documents of runs of the installed docket, each of three calls a session."""

    plain: Files
    signed: Files
    """By an operator's key."""
    appended: Files
    """``plain``, continued by somebody who holds nothing but the directory."""
    resumed: Files
    """``signed``, continued with the same operator's key; also holds the earlier receipt, ``receipt-0.json``."""


@dataclass(frozen=True)
class Attack:
    """What somebody leaves behind, and what every verifier must say of it."""

    name: str
    files: Files
    check: str = ""
    """The first check that fails; empty where none does."""
    verdict: str = "failed"
    args: tuple[str, ...] = ()
    """Further arguments of ``docket verify``."""
    special: Callable[[Path], None] | None = None
    """Makes in the directory what is no regular file."""


def real_runs(installed: Installed, provider: Provider) -> Runs:
    """Run docket three times, as a user would."""

    def run(*flags: str) -> Files:
        done = installed.run("run", "--quiet", *flags, *provider.flags, "--", "sh", "-c", CALLS)
        assert done.status == 0, done.err
        return {path.name: path.read_bytes() for path in installed.latest.iterdir() if path.is_file()}

    operator = str(installed.directory / "operator.key")
    subprocess.run([installed.docket, "keygen", operator], check=True, capture_output=True)
    return Runs(
        plain=run(),
        appended=run("--resume", "latest"),
        signed=run("--sign", operator),
        resumed=run("--sign", operator, "--resume", "latest"),
    )


def events(files: Files) -> list[Any]:
    """The events of a ledger, as values."""
    return [decode_object(line) for line in files["ledger.jsonl"].splitlines()]


def with_events(files: Files, changed: list[Any]) -> Files:
    """``files`` with a ledger of these events, as they are."""
    return {**files, "ledger.jsonl": b"".join(encode(event) + b"\n" for event in changed)}


def with_receipt(files: Files, change: Callable[[Any], Any]) -> Files:
    """``files`` with the receipt changed as a value; its signatures stay what they were."""
    receipt = decode_object(files["receipt.json"].removesuffix(b"\n"))
    change(receipt)
    return {**files, "receipt.json": encode(receipt) + b"\n"}


def without(files: Files, *names: str) -> Files:
    """``files`` with some missing."""
    return {name: data for name, data in files.items() if name not in names}
