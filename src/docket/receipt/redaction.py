"""Withholding: private values replaced by their commitments, which changes no hash or signature (spec section 2).

Invariant: a withheld member keeps its commitment; nothing public is touched. A name that no category knows is withheld
with the first of them, since what it holds cannot be told.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from docket.primitives.canonical import JsonObject
from docket.primitives.sealed import seal

CATEGORIES: dict[str, frozenset[str]] = {
    "paths": frozenset(
        {"cwd", "file", "path", "paths", "root", "source", "origin", "before", "after", "first", "tree", "manifest"}
    )
    | {
        "record",
        "uncovered",
        "ignored",
        "watch",
        "ignore",
        "deny_write",
        "metrics_file",
        "document",
        "overrides",
        "reason",
    },
    "argv": frozenset({"argv", "command", "environment", "adaptations", "overrides", "reason"}),
    "hosts": frozenset({"host", "base_url", "listen", "target", "detail", "document", "overrides"}),
    "notes": frozenset({"label", "text", "said", "detail", "name", "model"}),
    "bodies": frozenset({"body", "request_sha256", "response_sha256", "tree", "manifest"}),
}
"""By category: the names of private members that hold such values. A member may be in several."""
KNOWN = frozenset().union(*CATEGORIES.values(), {"count", "prices"})
"""Every name that docket writes; ``count`` and ``prices`` belong to no category."""


class Withholding:
    """Which private members to withhold, and how many were."""

    def __init__(self, categories: Collection[str]) -> None:
        """``categories``: names of CATEGORIES."""
        self.names = frozenset().union(*(CATEGORIES[category] for category in categories))
        self.others = bool(set(categories) - {"bodies"})
        """Whether names that no category knows are withheld too."""
        self.count = 0

    def apply(self, document: JsonObject) -> JsonObject:
        """``document`` with the chosen members withheld, wherever a ``private`` object stands."""
        changed: JsonObject = self._object(document)
        return changed

    def _object(self, value: dict[str, Any]) -> dict[str, Any]:
        return {
            name: self._private(value) if name == "private" else self._any(member) for name, member in value.items()
        }

    def _any(self, value: Any) -> Any:
        if isinstance(value, dict):
            return self._object(value)
        return [self._any(member) for member in value] if isinstance(value, list) else value

    def _private(self, holder: dict[str, Any]) -> dict[str, Any]:
        commitments: Any = seal({"private": holder["private"]})["private"]
        kept = {}
        for name, member in holder["private"].items():
            chosen = name in self.names or (self.others and name not in KNOWN)
            if chosen and "value" in member:
                self.count += 1
                member = {"commitment": commitments[name]}
            kept[name] = member
        return kept
