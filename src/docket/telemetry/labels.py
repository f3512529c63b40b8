"""Label values that stay few and clean whatever an agent sends.

Each label draws from a closed set or from a bounded number of names; the rest shares ``other``. A name with a control
character is ``unfit``: some parsers cut lines at a carriage return, which the text format cannot escape.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

from docket.ledger import events

MAX_UNKNOWN_MODELS = 32
"""Model names beyond the priced and configured ones that get a label of their own: a run uses a handful."""
MAX_NAMES = 64
"""Providers, upstreams, kinds, codes and reasons: each comes from the policy or from a table, so never reached."""
MAX_LENGTH = 128
"""As in the ledger's public strings."""

EVENT_TYPES = frozenset(fact.type for fact in get_args(events.Event) if fact.type)


class Names:
    """The first ``limit`` distinct values keep their name."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._seen: set[str] = set()

    def __call__(self, name: str) -> str:
        if name in self._seen:
            return name
        if not name.isprintable() or len(name) > MAX_LENGTH:
            return "unfit"
        if len(self._seen) >= self._limit:
            return "other"
        self._seen.add(name)
        return name


class Labels:
    """One bounded set of names for each label."""

    def __init__(self, known_models: Iterable[str] = ()) -> None:
        self._known_models = frozenset(known_models)
        self._unknown_models = Names(MAX_UNKNOWN_MODELS)
        self.provider, self.upstream, self.kind, self.code, self.reason = (Names(MAX_NAMES) for _ in range(5))

    def model(self, name: str) -> str:
        return name if name in self._known_models else self._unknown_models(name)
