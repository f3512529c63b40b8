"""Which keyed events of the agent are on the record already: a fold of the ledger, asked before an event is taken.

The key is what ``Idempotency-Key`` said. The ledger holds its digest and that of the body beside what the agent said,
as the private member ``idempotency``, so a resumed session knows what an earlier one took. Invariant: an event that is
on the record under a key is found for 24 hours, unless 20,000 keyed events came after it.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime

from docket.ledger.chain import Entry
from docket.ledger.events import Note, ToolCall, ToolResult
from docket.primitives.canonical import JsonObject
from docket.primitives.digest import sha256_hex

MEMBER = "idempotency"
KEPT_US = 24 * 3600 * 1_000_000
"""How long a key is known, in microseconds of the wall clock."""
MAX_KEYS = 20_000
"""Keys known at once: some 6 MiB. An agent that asserts one keyed event a second for five hours stays below it."""


@dataclass(frozen=True, slots=True)
class Keyed:
    """A key and the body that came with it, by their SHA-256 in hex."""

    key: str
    body: str

    @classmethod
    def of(cls, key: bytes, body: bytes) -> Keyed:
        """Digest what a request says."""
        return cls(sha256_hex(key), sha256_hex(body))

    def to_json(self) -> JsonObject:
        """The private member ``idempotency``."""
        return {"key": self.key, "body": self.body}


@dataclass(frozen=True, slots=True)
class Taken:
    """A keyed event that is on the record: the digest of its body, and its ``seq``."""

    body: str
    seq: int
    unix_us: int


class AssertedKeys:
    """The keys of events that are durable."""

    def __init__(self) -> None:
        self._taken: OrderedDict[str, Taken] = OrderedDict()

    def add(self, entry: Entry) -> None:
        """Take the next entry of the ledger."""
        event = entry.event
        if not isinstance(event, Note | ToolCall | ToolResult):
            return
        match event.private.get(MEMBER):
            case {"key": str(key), "body": str(body)}:
                self._taken[key] = Taken(body, entry.seq, _unix_us(entry.ts))
                if len(self._taken) > MAX_KEYS:
                    self._taken.popitem(last=False)

    def find(self, key: str, unix_us: int) -> Taken | None:
        """The event that was taken under ``key``, unless that is more than a day before ``unix_us``."""
        taken = self._taken.get(key)
        return taken if taken is not None and unix_us - taken.unix_us < KEPT_US else None


def _unix_us(ts: str) -> int:
    """The inverse of ``primitives.instant.timestamp``."""
    moment = datetime.fromisoformat(ts)
    return int(moment.replace(microsecond=0).timestamp()) * 1_000_000 + moment.microsecond
