"""Signed run directories with fixed keys, clock and salts: the same calls give the same bytes.

A ``Recording`` takes events, right or wrong, puts them in a chain, and makes checkpoints, receipt and signatures over
whatever it was given, so that a test or a vector changes one thing and keeps everything around it consistent.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from docket.errors import FormatError
from docket.ledger import checkpoint
from docket.ledger.codec import from_json
from docket.ledger.events import Event
from docket.policy.document import digest
from docket.primitives.canonical import JsonObject, encode
from docket.primitives.digest import leaf_hash, sha256_hex
from docket.primitives.instant import timestamp
from docket.primitives.merkle import Frontier, ProofBuilder
from docket.primitives.money import Usd
from docket.primitives.sealed import disclose, seal
from docket.primitives.signature import SigningKey
from docket.receipt import build
from docket.receipt.model import Anchor, Caps, Evidence, Proven, Run, Start
from docket.receipt.totals import Totals
from tests.kit.entries import entry

DOCKET = "DKT-20261130-0123456789"
EPOCH_US = 1_796_040_000_000_000
GENESIS = sha256_hex(b"docket-ledger/1")
PRICES = sha256_hex(b"a price table")
UNIT = {"input": "3", "output": "15", "cache_read": "0.3", "cache_write_5m": "3.75", "web_search": "0.01"}

Files = dict[str, bytes]


def key(name: str) -> SigningKey:
    """The signing key that belongs to ``name``."""
    return SigningKey(hashlib.sha256(b"docket test key: " + name.encode()).digest())


class Salts:
    """An endless, fixed source of bytes."""

    def __init__(self, name: str) -> None:
        self._name = name.encode()
        self._drawn = 0

    def __call__(self, size: int) -> bytes:
        self._drawn += 1
        return hashlib.shake_128(b"%s %d" % (self._name, self._drawn)).digest(size)


@dataclass
class Line:
    """One entry as it stands in a ledger."""

    document: JsonObject

    @property
    def seq(self) -> int:
        return self.document["seq"]  # type: ignore[return-value]

    @property
    def type(self) -> str:
        return self.document["type"]  # type: ignore[return-value]

    @property
    def elapsed_us(self) -> int:
        return self.document["elapsed_us"]  # type: ignore[return-value]

    @property
    def data(self) -> JsonObject:
        return self.document["data"]  # type: ignore[return-value]

    @property
    def private(self) -> JsonObject | None:
        return self.document.get("private")  # type: ignore[return-value]

    @property
    def event(self) -> Event:
        """For the fold of a ledger that is wrong on purpose, what its type needs is filled in."""
        try:
            return from_json(self.type, str(self.document["by"]), self.data, self.private)
        except FormatError:
            return entry(self.type, self.data).event


@dataclass
class Session:
    """One session's start, with what a receipt says of it."""

    start: Line
    proof: ProofBuilder
    key: SigningKey
    note: bytes = b""
    end: Line | None = None
    end_proof: ProofBuilder | None = None


def bill(source: str = "reported", *, model_priced: bool = True, **quantities: int) -> JsonObject:
    """A usage with these quantities, at the prices of ``UNIT``."""
    items: list[Any] = []
    total = Usd(0)
    for kind, quantity in quantities.items():
        item: JsonObject = {"kind": kind, "quantity": quantity}
        if model_priced:
            per = 1 if kind == "web_search" else 1_000_000
            item |= {"unit_usd": UNIT[kind], "per": per}
            total += Usd.parse(UNIT[kind]).times(quantity, per)
        items.append(item)
    usage: JsonObject = {"source": source, "items": items}
    if source != "none" and model_priced:
        usage["cost_usd"] = str(total)
    return usage


@dataclass
class Recording:
    """A run being written."""

    docket: str = DOCKET
    operator: SigningKey | None = None
    policy: JsonObject = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)
    notes: list[bytes] = field(default_factory=list)
    sessions: list[Session] = field(default_factory=list)
    totals: Totals = field(default_factory=Totals)
    head: str = GENESIS
    elapsed_us: int = 0
    calls: int = 0
    evidence: Evidence = field(default_factory=Evidence)
    outcome: str = "completed"
    exit: JsonObject = field(default_factory=lambda: {"code": 0})
    fold: bool = True
    """Whether entries go into the totals; off for entries that no fold accepts."""

    def __post_init__(self) -> None:
        self.frontier = Frontier()
        self.salts = Salts(self.docket)
        if not self.policy:
            self.policy = {
                "name": "default",
                "caps": {"max_usd": "5", "max_tokens": None, "max_model_calls": 100},
                "private": disclose({"source": "/home/ada/docket.toml"}, self.salts),
            }

    @property
    def size(self) -> int:
        return len(self.lines)

    @property
    def root(self) -> str:
        return self.frontier.root().hex()

    def add(
        self,
        kind: str,
        data: JsonObject,
        *,
        by: str = "supervisor",
        private: Mapping[str, Any] | None = None,
        step_us: int = 1000,
        watch: bool = False,
        **envelope: Any,
    ) -> Line:
        """Append an event; ``envelope`` replaces or adds members, the hash is over the result."""
        self.elapsed_us += step_us
        document: JsonObject = {
            "seq": self.size,
            "ts": timestamp(EPOCH_US + self.elapsed_us),
            "elapsed_us": self.elapsed_us,
            "type": kind,
            "by": by,
            "data": data,
            "prev": self.head,
        }
        if private:
            document["private"] = disclose(private, self.salts)
        document |= envelope
        hashed = envelope.get("hash") or leaf_hash(encode(seal(document))).hex()
        document["hash"] = hashed
        line = Line(document)
        leaf = bytes.fromhex(hashed)
        self.watched = self.frontier.append_watched(leaf) if watch else None
        if not watch:
            self.frontier.append(leaf)
        self.lines.append(line)
        self.head = hashed
        if self.fold:
            self.totals.add(line)
        return line

    def start(self, *, endorse: bool | None = None, **changes: Any) -> Line:
        """A session's start, with its own run key; endorsed where there is an operator (or as told)."""
        number = len(self.sessions)
        run_key = key(f"{self.docket} session {number}")
        data: JsonObject = {
            "docket": self.docket,
            "session": number,
            "run_key": run_key.public.hex(),
            "policy": digest(self.policy),
            "prices": PRICES,
            "tool": {"name": "docket", "version": "0.1.0"},
            "platform": {"system": "Linux", "python": "3.11.2"},
        }
        if number:
            data["continues"] = {"size": self.size, "root": self.root, "head": self.head}
        data |= changes
        if endorse if endorse is not None else self.operator is not None:
            data["endorsement"] = endorsement(data, self.operator or key("operator"))
        line = self.add(
            "session.start", data, private={"argv": ["agent.py", "--task", "café"], "cwd": "/home/ada"}, watch=True
        )
        assert self.watched is not None
        self.sessions.append(Session(line, self.watched, run_key))
        return line

    def call(self, usage: JsonObject | None = None, *, model: str = "m-1", error: str = "", **data: Any) -> None:
        """A request and its end."""
        self.request(model=model)
        self.answer(
            self.calls, usage if usage is not None else bill(input=1000, output=20), model=model, error=error, **data
        )

    def request(self, *, model: str = "m-1", number: int | None = None) -> None:
        self.calls = number if number is not None else self.calls + 1
        self.add(
            "model.request",
            {
                "call": self.calls,
                "upstream": "main",
                "provider": "openai",
                "protocol": "openai",
                "endpoint": "/v1/chat/completions",
                "model": model,
                "stream": True,
                "bytes": 120,
                "hold": {"tokens": 4096, "usd": "0.05"},
                "waited_us": 0,
            },
            by="boundary",
            private={"target": "/v1/chat/completions", "request_sha256": sha256_hex(b"%d" % self.calls)},
        )

    def answer(
        self, number: int, usage: JsonObject | None, *, model: str = "m-1", error: str = "", **data: Any
    ) -> None:
        document: JsonObject = {
            "call": number,
            "status": 200,
            "reason": error or "complete",
            "provider": "openai",
            "model": model,
            "tier": "standard",
            "upstream": "main",
            "bytes": 900,
            "first_byte_us": 80_000 + 1_234 * number,
            "duration_us": 300_000 + 54_321 * number,
        }
        if usage is not None:
            document["usage"] = usage
        document |= data
        self.add(
            "model.error" if error else "model.response",
            document,
            by="doctor" if error == "lost" else "boundary",
            private={"response_sha256": sha256_hex(b"answer %d" % number)},
        )

    def note(
        self,
        *,
        size: int | None = None,
        root: bytes | None = None,
        signer: SigningKey | None = None,
        docket: str | None = None,
        lost: int | None = None,
    ) -> bytes:
        """A checkpoint over what there is, signed by the run key of this session."""
        session = self.sessions[-1]
        session.note = checkpoint.sign(
            docket or self.docket,
            self.size if size is None else size,
            self.frontier.root() if root is None else root,
            signer or session.key,
            self.lost if lost is None else lost,
        )
        self.notes.append(session.note)
        return session.note

    @property
    def lost(self) -> int:
        """Events that the run has lost so far."""
        return max(self.totals.lost, self.evidence.unwritten_events)

    def _evidence(self, kind: object) -> Evidence:
        evidence = replace(self.evidence, unwritten_events=self.lost)
        if self.lost:
            evidence = replace(evidence, ledger_complete=False)
        elif kind == "recovered":
            evidence = replace(evidence, ledger_complete="unknown")
        return evidence

    def end(self, **changes: Any) -> Line:
        """``session.end``, and the checkpoint over it."""
        event = build.end_event(self.run(), self.totals)
        data: JsonObject = {
            "outcome": event.outcome,
            "exit": event.exit,
            "totals": event.totals,
            "usage_tree": event.usage_tree,
            "ops": event.ops,
        }
        line = self.add("session.end", data | changes, watch=True)
        self.sessions[-1].end, self.sessions[-1].end_proof = line, self.watched
        self.note()
        return line

    def run(self, **changes: Any) -> Run:
        values: dict[str, Any] = {
            "docket": self.docket,
            "created_at": timestamp(EPOCH_US + self.elapsed_us),
            "tool": {"name": "docket", "version": "0.1.0"},
            "outcome": self.outcome,
            "exit": self.exit,
            "policy": self.policy,
            "tables": tuple(
                {"digest": PRICES, "source": "kit", "date": "2026-11-30"} for _ in range(max(1, len(self.sessions)))
            ),
            "evidence": self._evidence(changes.get("kind")),
            "caps": Caps(usd_limit=Usd.parse("5"), usd_booked=self.totals.cost, calls_limit=100),
            "enforcement": {"memory": "PR_SET_DUMPABLE 0"},
            "private": {"argv": ["agent.py"], "cwd": "/home/ada", "label": "nightly"},
        }
        return Run(**(values | changes))

    def proven(self, line: Line, proof: ProofBuilder) -> Proven:
        hashes = tuple(each.hex() for each in self.frontier.proof(proof))
        return Proven(event=line.document, index=line.seq, size=self.size, hashes=hashes)

    def anchor(self) -> Anchor:
        starts = []
        for session in self.sessions:
            last = session is self.sessions[-1]
            end = None
            if session.end is not None and session.end_proof is not None and not last:
                end = self.proven(session.end, session.end_proof)
            starts.append(
                Start(
                    start=self.proven(session.start, session.proof),
                    checkpoint=session.note.decode() if session.note and not last else None,
                    end=end,
                )
            )
        session = self.sessions[-1]
        end = None
        if session.end is not None and session.end_proof is not None and session.end is self.lines[-1]:
            end = self.proven(session.end, session.end_proof)
        note = self.notes[-1].decode() if self.notes else ""
        return Anchor(size=self.size, root=self.root, head=self.head, checkpoint=note, starts=tuple(starts), end=end)

    def unsigned(self, **changes: Any) -> JsonObject:
        """The receipt without signatures."""
        return build.build(
            self.run(**changes), self.totals, (), self.anchor(), self.salts, operator=self.operator is not None
        )

    def signed(self, receipt: JsonObject) -> JsonObject:
        """``receipt`` signed as the run and the operator sign it; a recovered one by nobody."""
        if receipt["kind"] == "recovered":
            return receipt
        return build.sign(receipt, self.sessions[-1].key, self.operator)

    def files(self, edit: Callable[[JsonObject], Any] | None = None, **changes: Any) -> Files:
        """The run directory; ``edit`` changes the receipt before it is signed."""
        receipt = self.unsigned(**changes)
        if edit is not None:
            edit(receipt)
        return {**self.ledger_files(), "receipt.json": build.to_line(self.signed(receipt))}

    def ledger_files(self) -> Files:
        """The run directory without a receipt."""
        return {
            "ledger.jsonl": b"".join(encode(line.document) + b"\n" for line in self.lines),
            "checkpoints": b"".join(self.notes),
        }


def endorsement(data: JsonObject, operator: SigningKey) -> JsonObject:
    """The operator's endorsement of the start with these ``data``."""
    names = ("docket", "policy", "prices", "run_key", "session")
    message = {name: data[name] for name in names} | {"continues": data.get("continues")}
    value = operator.sign(b"docket-endorse/1\x00" + encode(message)).hex()
    return {"alg": "ed25519", "key": operator.public.hex(), "value": value}


def small(operator: SigningKey | None = None, calls: int = 2) -> Recording:
    """A short, whole run: a start, calls, a refusal, the agent's exit, an end."""
    run = Recording(operator=operator)
    run.start()
    run.note()
    run.add("proc.spawn", {"pid": 4242}, private={"argv": ["agent.py"]})
    for _ in range(calls):
        run.call()
    run.add("model.denied", {"code": "max_usd", "final": True, "count": 3}, by="boundary")
    run.add("proc.exit", {"code": 0})
    run.end()
    return run


def write(files: Files, directory: Path) -> Path:
    """Put ``files`` into ``directory``."""
    for name, data in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return directory


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()
