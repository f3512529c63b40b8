"""How fast, and in how much memory, a ledger of a million events is verified.

``python -m bench.verification make DIR [EVENTS]`` writes a whole, signed run directory; ``python -m bench.verification
run DIR COMMAND...`` runs a verifier on it and prints seconds, events a second and peak memory as JSON.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from time import perf_counter

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
        policy=build.document_digest(POLICY),
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
    receipt = build.sign(build.build(run, totals, anchor, entropy), key)
    (directory / "receipt.json").write_bytes(build.to_line(receipt))


def run(directory: Path, command: list[str]) -> None:
    """Run ``command`` with the directory as its last argument; print what it took."""
    events = int((directory / "events").read_text())
    began = perf_counter()
    done = subprocess.run([*command, str(directory)], stdout=subprocess.DEVNULL, check=False)
    seconds = perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime
    figures = {
        "command": " ".join(command),
        "status": done.returncode,
        "events": events,
        "bytes": (directory / "ledger.jsonl").stat().st_size,
        "ms": round(seconds * 1000),
        "cpu_ms": round(cpu * 1000),
        "events_per_second": round(events / seconds),
        "events_per_cpu_second": round(events / cpu),
        "peak_kib": used.ru_maxrss,
    }
    sys.stdout.write(encode(figures).decode() + "\n")


def main(args: list[str]) -> None:
    """The command line."""
    directory = Path(args[1])
    if args[0] == "make":
        events = int(args[2]) if len(args) > 2 else 1_000_000
        make(directory, events)
        (directory / "events").write_text(str(events))
    else:
        run(directory, args[2:])


if __name__ == "__main__":
    main(sys.argv[1:])
