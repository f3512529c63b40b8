"""The response cache: which earlier answer of this run an identical request may be given again. Pure.

Invariants: only whole answers are given again, each at most ``max_hits`` times and for ``ttl``; memory is bounded by
entries and by bytes, and what was used longest ago goes first.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import orjson

from docket.ledger.events import CallNumber
from docket.policy.usage import Cache
from docket.primitives.instant import Instant
from docket.primitives.money import ZERO, Usd

MAX_ANSWER = 1024 * 1024
"""Largest answer kept, in bytes: longer ones are images and the like."""
MAX_BYTES = 64 * 1024 * 1024
"""Bytes of all answers kept together."""
T = TypeVar("T")


@dataclass(slots=True)
class Entry(Generic[T]):
    """A whole answer; ``answer`` is what the boundary needs to give it again."""

    origin: CallNumber
    answer: T
    size: int
    stored: Instant
    cost_usd: Usd | None = None
    """What the origin cost, and a hit therefore saves; None where that is unknown."""
    hits: int = 0


@dataclass(frozen=True, slots=True)
class Exhausted:
    """An answer was given as often as the policy allows; ``first`` is true when that was noticed now."""

    origin: CallNumber
    first: bool


@dataclass(slots=True)
class ResponseCache(Generic[T]):
    """Answers of one run by the digest of their requests."""

    policy: Cache
    saved_usd: Usd = ZERO
    hits: int = 0
    _entries: OrderedDict[bytes, Entry[T]] = field(default_factory=OrderedDict)
    _bytes: int = 0

    def find(self, key: bytes, now: Instant) -> Entry[T] | Exhausted | None:
        """The answer that the request ``key`` may be given, counted as a hit."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if now - entry.stored >= self.policy.ttl_seconds.us:
            self._drop(key)
            return None
        if self.policy.max_hits is not None and entry.hits >= self.policy.max_hits:
            first = entry.hits == self.policy.max_hits
            entry.hits += 1
            return Exhausted(entry.origin, first)
        entry.hits += 1
        self.hits += 1
        self.saved_usd += entry.cost_usd or ZERO
        self._entries.move_to_end(key)
        return entry

    def keep(self, key: bytes, entry: Entry[T]) -> None:
        """Keep an answer; one that is there already stays, with its hits."""
        if key in self._entries or entry.size > MAX_ANSWER:
            return
        self._entries[key] = entry
        self._bytes += entry.size
        while len(self._entries) > self.policy.max_entries or self._bytes > MAX_BYTES:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: bytes) -> None:
        self._bytes -= self._entries.pop(key).size


def request_key(body: bytes, **named: bytes) -> bytes | None:
    """The digest of an identical request: method, endpoint and whatever else is ``named``, and the canonical body.

    None for a body that is no JSON, which is never answered from the cache.
    """
    try:
        canonical = orjson.dumps(orjson.loads(body), option=orjson.OPT_SORT_KEYS)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return None
    digest = hashlib.sha256()
    parts: Mapping[str, bytes] = {**named, "body": canonical}
    for name in sorted(parts):
        digest.update(b"%s:%d:" % (name.encode(), len(parts[name])))
        digest.update(parts[name])
    return digest.digest()
