"""Ledgers of scripted runs: each event as the boundary or the supervisor makes it, chained and sealed by the real code.

Time passes only where the script says so, and every call is billed at the prices below.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from docket.ledger.chain import Chain, Entry
from docket.ledger.codec import draft
from docket.ledger.events import (
    CallNumber,
    Event,
    FsSnapshot,
    Hold,
    ModelCacheHit,
    ModelDenied,
    ModelError,
    ModelRequest,
    ModelResponse,
    Note,
    PolicyApplied,
    PolicyViolation,
    ProcSpawn,
    SessionStart,
    ToolCall,
    ToolResult,
)
from docket.ledger.usage import Item, Usage
from docket.policy.document import document
from docket.policy.model import Files, Policy
from docket.primitives.canonical import JsonObject
from docket.primitives.digest import sha256_hex
from docket.primitives.instant import timestamp
from docket.primitives.money import Usd
from docket.storage.paths import LEDGER, RunDirectory

NUMBER = "DKT-20261201-0123456789"
PRICES: dict[str, tuple[str, dict[str, str]]] = {
    "gpt-4o": ("openai", {"input": "2.5", "cache_read": "1.25", "output": "10"}),
    "gpt-4o-mini": ("openai", {"input": "0.15", "cache_read": "0.075", "output": "0.6"}),
    "claude": ("anthropic", {"input": "3", "cache_read": "0.3", "cache_write_5m": "3.75", "output": "15"}),
    "local": ("ollama", {}),
}
"""Provider and USD for a million tokens, by model."""


def bill(model: str, quantities: dict[str, int], *, source: Any = "reported", assumed: tuple[str, ...] = ()) -> Usage:
    """The bill of ``quantities`` by kind; without a cost where a kind has no price."""
    prices = PRICES[model][1]
    items = tuple(
        Item(kind, many, Usd.parse(prices[kind]) if kind in prices else None, 1_000_000 if kind in prices else None)
        for kind, many in quantities.items()
        if many
    )
    prices_known = source != "none" and all(item.unit_usd is not None for item in items)
    pico = sum(item.unit_usd.pico_of(item.quantity, 1_000_000) for item in items if item.unit_usd is not None)
    cost = Usd(pico) if prices_known else None
    return Usage(source, () if source == "none" else items, cost, assumed=assumed)


class Script:
    """A run under way: one method for each thing that can happen in it."""

    def __init__(self, number: str = NUMBER, seed: int = 0) -> None:
        self.number = number
        self.entries: list[Entry] = []
        self._lines: list[bytes] = []
        self._chain = Chain()
        self._entropy = random.Random(seed).randbytes
        self._us = 0
        self._calls = 0

    def start(self, *, deny_write: tuple[str, ...] = (), watched: bool = True) -> Script:
        """The first events of a session: its policy, the files, the agent."""
        start = SessionStart(
            docket=self.number, session=0, run_key="0" * 64, policy="0" * 64, prices="1" * 64,
            tool={"name": "docket"}, platform={"system": "linux"}, private={"argv": ["agent"]},
        )  # fmt: skip
        self.add(start)
        policy = document(Policy(files=Files(deny_write=deny_write)), self._entropy)
        self.add(PolicyApplied(policy="0" * 64, private={"document": policy}))
        if watched:
            self.add(FsSnapshot(when="before", files=1, bytes=1, entries=1, stored=False, uncovered=0, ignored=0))
        return self.add(ProcSpawn(pid=7))

    def add(self, event: Event) -> Script:
        """Record ``event`` now."""
        entry, line, _ = self._chain.extend(
            draft(event), ts=timestamp(1_800_000_000_000_000 + self._us), elapsed_us=self._us, entropy=self._entropy
        )
        self.entries.append(entry)
        self._lines.append(line)
        return self

    def wait(self, seconds: float) -> Script:
        self._us += int(seconds * 1_000_000)
        return self

    def begin(
        self, model: str = "gpt-4o", *, digest: str | None = None, upstream: str | None = None,
        max_output: int | None = None, endpoint: str = "/v1/chat/completions", digested: bool = True,
    ) -> int:  # fmt: skip
        """Send a request, and return its number; one without ``digest`` is unlike any other."""
        self._calls += 1
        told = digest if digest is not None else f"request {self._calls}"
        request = ModelRequest(
            CallNumber(self._calls), upstream or PRICES[model][0], PRICES[model][0], "openai", endpoint, model, False,
            100, Hold(1000), 0, max_output, private={"request_sha256": sha256_hex(told.encode())} if digested else {},
        )  # fmt: skip
        self.add(request)
        return self._calls

    def end(
        self, call: int, model: str = "gpt-4o", *, fresh: int = 500, read: int = 0, written: int = 0,
        output: int = 300, reason: Any = "complete", finish: str | None = "stop", status: int | None = 200,
        source: Any = "reported", billed: bool = True, assumed: tuple[str, ...] = (), failed: bool = False,
        tier: str = "standard",
    ) -> Script:  # fmt: skip
        """End ``call``, answered, or with an error where it ``failed``."""
        quantities = {"input": fresh, "cache_read": read, "cache_write_5m": written, "output": output}
        usage = bill(model, quantities, source=source, assumed=assumed) if billed else None
        kind = ModelError if failed else ModelResponse
        ended = kind(
            CallNumber(call), status, reason, PRICES[model][0], model, tier, "up", finish, None, 100, 1000, 2000, usage
        )
        return self.add(ended)

    def ask(
        self, model: str = "gpt-4o", *, digest: str | None = None, seconds: float = 2, max_output: int | None = None,
        upstream: str | None = None, digested: bool = True, **ended: Any,
    ) -> Script:  # fmt: skip
        """One call from its request to its end."""
        call = self.begin(model, digest=digest, max_output=max_output, upstream=upstream, digested=digested)
        return self.wait(seconds).end(call, model, **ended)

    def fail(self, model: str = "gpt-4o", *, reason: Any = "status", status: int | None = 503, **more: Any) -> Script:
        """One call that the upstream did not answer well, not billed."""
        more = {"billed": False, "finish": None} | more
        return self.ask(model, reason=reason, status=status, failed=True, **more)

    def deny(self, code: str, *, final: bool = True, count: int = 1, model: str | None = "gpt-4o") -> Script:
        waits = {} if final else {"retry_after": 1}
        return self.add(ModelDenied(code=code, final=final, count=count, model=model, **waits))

    def hit(self, origin: int) -> Script:
        """A call that the response cache answered."""
        self._calls += 1
        return self.add(
            ModelCacheHit(call=CallNumber(self._calls), origin=CallNumber(origin), saved_usd=Usd.parse("1"))
        )

    def use(self, tool: str = "shell", **said: Any) -> Script:
        """The agent says that it used a tool, and what came of it."""
        self.add(ToolCall(private={"said": {"name": tool}}))
        return self.add(ToolResult(private={"said": {"name": tool} | said}))

    def note(self, text: str = "a remark") -> Script:
        return self.add(Note(by="agent", private={"text": text}))

    def violate(self, path: str = ".env", reason: str = "modified", **private: Any) -> Script:
        said: JsonObject = {"path": path} | private
        return self.add(PolicyViolation(rule="deny_write", reason=reason, private=said))

    def ledger(self) -> bytes:
        """The file as it stands now."""
        return b"".join(self._lines)

    def write(self, root: Path) -> Path:
        """Make a run directory below ``root``/.docket of it, and return that."""
        run = RunDirectory.create(root / ".docket", self.number)
        try:
            (run.path / LEDGER).write_bytes(self.ledger())
            return run.path
        finally:
            run.close()
