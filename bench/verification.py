"""How fast, and in how much memory, each verifier checks a ledger of a million events (``make scale``).

``python -m bench.verification EVENTS DIR`` makes a whole, signed run, verifies it, and writes a dated page into DIR.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

from conformance.verifiers import PYTHON, Verifier, go, javascript
from docket.ledger import checkpoint
from docket.ledger.chain import Chain
from docket.ledger.codec import draft
from docket.ledger.events import (
    CallNumber,
    Event,
    Hold,
    ModelRequest,
    ModelResponse,
    SessionStart,
)
from docket.ledger.usage import Item, Usage
from docket.primitives.canonical import encode
from docket.primitives.digest import sha256_hex
from docket.primitives.instant import timestamp
from docket.primitives.money import Usd
from docket.primitives.signature import SigningKey
from docket.receipt import build
from docket.receipt.model import Anchor, Proven, Run, Start
from docket.receipt.totals import Totals

NUMBER = "DKT-20261130-0123456789"
EPOCH_US = 1_796_040_000_000_000
ROUNDS = 3
LOOK_SECONDS = 0.02
TODAY = datetime.now(UTC).date().isoformat()
EVERY = 256
"""Events between checkpoints, as docket writes them."""
POLICY = {"name": "bench"}
PRICES = sha256_hex(b"bench prices")


def pair(number: int) -> tuple[Event, Event]:
    """A request and its answer as docket records them."""
    call = CallNumber(number)
    request = ModelRequest(
        call=call,
        upstream="openai",
        provider="openai",
        protocol="openai",
        endpoint="/v1/chat/completions",
        model="gpt-5-mini",
        stream=True,
        bytes=1234,
        hold=Hold(tokens=4096, usd=Usd.parse("0.05")),
        waited_us=0,
        private={"target": "/v1/chat/completions", "request_sha256": sha256_hex(b"%d" % number)},
    )
    items = (
        Item(kind="input", quantity=1000 + number % 977, unit_usd=Usd.parse("0.25"), per=1_000_000),
        Item(kind="output", quantity=20 + number % 331, unit_usd=Usd.parse("2"), per=1_000_000),
    )
    cost = sum((item.unit_usd.times(item.quantity, 1_000_000) for item in items if item.unit_usd), Usd(0))
    response = ModelResponse(
        call=call,
        status=200,
        reason="complete",
        provider="openai",
        model="gpt-5-mini",
        tier="standard",
        upstream="openai",
        finish="stop",
        provider_request_id=f"req_{number:012}",
        bytes=4321,
        first_byte_us=80_000 + number % 7919,
        duration_us=900_000 + number % 104_729,
        usage=Usage(source="reported", items=items, cost_usd=cost),
        private={"response_sha256": sha256_hex(b"answer %d" % number)},
    )
    return request, response


def make(directory: Path, events: int) -> None:
    """Write a run of ``events`` events: a start, calls, an end."""
    directory.mkdir(parents=True, exist_ok=True)
    key = SigningKey(b"\x07" * 32)
    chain, totals, drawn = Chain(), Totals(), 0

    def entropy(size: int) -> bytes:
        nonlocal drawn
        drawn += 1
        return drawn.to_bytes(size, "big")

    run = Run(
        docket=NUMBER,
        created_at=timestamp(EPOCH_US),
        tool={"name": "docket"},
        outcome="completed",
        exit={"code": 0},
        policy=POLICY,
        tables=({"digest": PRICES},),
    )
    start_event = SessionStart(
        docket=NUMBER,
        session=0,
        run_key=key.public.hex(),
        policy=sha256_hex(encode(POLICY)),
        prices=PRICES,
        tool={"name": "docket"},
        platform={"system": "Linux"},
        private={"argv": ["agent"]},
    )
    with (directory / "ledger.jsonl").open("wb") as ledger, (directory / "checkpoints").open("wb") as notes:

        def put(event: Event, *, watch: bool = False):  # type: ignore[no-untyped-def]
            elapsed = chain.size * 450
            entry, line, proof = chain.extend(
                draft(event), ts=timestamp(EPOCH_US + elapsed), elapsed_us=elapsed, entropy=entropy, watch=watch
            )
            ledger.write(line)
            totals.add(entry)
            if chain.size % EVERY == 1:
                notes.write(checkpoint.sign(NUMBER, chain.size, chain.root(), key))
            return entry, proof

        start, start_proof = put(start_event, watch=True)
        for number in range(1, (events - 2) // 2 + 1):
            for event in pair(number):
                put(event)
        end, end_proof = put(build.end_event(run, totals), watch=True)
        note = checkpoint.sign(NUMBER, chain.size, chain.root(), key)
        notes.write(note)

    def proven(entry, proof) -> Proven:  # type: ignore[no-untyped-def]
        hashes = tuple(each.hex() for each in chain.frontier.proof(proof))
        return Proven(event=entry.to_json(), index=entry.seq, size=chain.size, hashes=hashes)

    anchor = Anchor(
        size=chain.size,
        root=chain.root().hex(),
        head=chain.head,
        checkpoint=note.decode(),
        starts=(Start(start=proven(start, start_proof)),),
        end=proven(end, end_proof),
    )
    receipt = build.sign(build.build(run, totals, (), anchor, entropy), key)
    (directory / "receipt.json").write_bytes(build.to_line(receipt))


def measure(directory: Path, events: int, verifier: Verifier) -> dict[str, Any]:
    """One verification by ``verifier``: what it took. Raises SystemExit where it does not verify."""
    began = perf_counter()
    process = subprocess.Popen([*verifier.command, str(directory)], stdout=subprocess.DEVNULL)
    ended, peak = 0, 0
    while not ended:
        peak = max(peak, _peak_kib(process.pid))
        ended, status, used = os.wait4(process.pid, os.WNOHANG)
        threading.Event().wait(0.0 if ended else LOOK_SECONDS)
    seconds = perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{verifier.name} ends with {process.returncode}")
    cpu = used.ru_utime + used.ru_stime
    return {
        "verifier": verifier.name,
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu, 2),
        "events_per_second": round(events / seconds),
        "peak_mib": round(peak / 1024, 1),
    }


def _peak_kib(pid: int) -> int:
    """The most memory that a process ever had resident since it was exec'd: wait4 would count what forked it too."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(found[0]) if found else 0


def page(events: int, size: int, raw: list[dict[str, Any]], versions: str) -> str:
    """The dated page."""
    rows = []
    for name in dict.fromkeys(each["verifier"] for each in raw):
        mine = [each for each in raw if each["verifier"] == name]
        middle = {key: statistics.median(each[key] for each in mine) for key in mine[0] if key != "verifier"}
        peak = max(each["peak_mib"] for each in mine)
        speed = f"{middle['seconds']:.1f} | {middle['cpu_seconds']:.1f} | {middle['events_per_second']:,.0f}"
        rows.append(f"| {name} | {speed} | {peak} |")
    today = TODAY
    return (
        f"# Verifying {events:,} events ({today})\n\n"
        f"Command: `make scale`. Machine: {os.cpu_count()} cores, {platform.system()} {platform.release()}.\n"
        f"{versions} Raw data beside this page. One run directory of {size / 1e6:,.0f} MB (requests and answers as\n"
        f"docket records them, a checkpoint every {EVERY} events, a receipt without rows), verified whole, median of\n"
        f"{ROUNDS} rounds in turn.\n\n"
        "| verifier | seconds | CPU seconds | events a second | peak memory, MiB |\n| --- | --- | --- | --- | --- |\n"
        + "\n".join(rows)
        + "\n\nNot shown: a cold file cache; more than one verification at once.\n"
    )


def main(events: int, out: Path) -> None:
    """Make a run of so many events, verify it with every verifier there is, write the page and the raw data."""
    found = [PYTHON, *(each for each in (javascript(), go()) if each is not None)]
    raw: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir="/var/tmp") as scratch:
        directory = Path(scratch)
        make(directory, events)
        for _ in range(ROUNDS):
            for verifier in found:
                raw.append(measure(directory, events, verifier))
                sys.stdout.write(f"{raw[-1]}\n")
        size = (directory / "ledger.jsonl").stat().st_size
    name = f"verification-{TODAY}"
    versions = f"CPython {platform.python_version()}."
    (out / f"{name}.json").write_text(json.dumps({"events": events, "bytes": size, "raw": raw}, indent=1) + "\n")
    (out / f"{name}.md").write_text(page(events, size, raw, versions))


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
