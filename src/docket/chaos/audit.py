"""The ledger held against what the agent itself counted on the wire.

The agent's count comes from the other side of the boundary, so that a drill's evidence is not a self-portrait.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from docket.chaos.evidence import Evidence
from docket.errors import FormatError
from docket.primitives.canonical import JsonObject, decode_object

COUNT_VARIABLE = "DOCKET_CHAOS_COUNT"
"""Names the file in which an agent leaves its count: ``{"sent", "ok", "refused", "failed"}`` as whole numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One figure from both sides."""

    what: str
    agent: int
    ledger: int

    @property
    def agrees(self) -> bool:
        return self.agent == self.ledger


def agents_count(path: Path) -> JsonObject | None:
    """What the agent left at ``path``; None where it left nothing that can be read."""
    try:
        count = decode_object(path.read_bytes().strip())
    except (OSError, FormatError):
        return None
    named = ("sent", "ok", "refused", "failed")
    return count if all(type(count.get(name)) is int for name in named) else None


def audit(evidence: Evidence, count: JsonObject) -> tuple[Compared, ...]:
    """Both sides' figures: calls sent, answered, refused, failed. What the record says that it lost counts as there."""
    good = [end for end in evidence.of("model.response") if end.get("status") == 200]
    bad = len(evidence.of("model.error")) + len(evidence.of("model.response")) - len(good)
    refused = sum(cast(int, denied["count"]) for denied in evidence.of("model.denied"))
    answered = len(good) + len(evidence.of("model.cache_hit"))
    lost = lost_types(evidence)
    answered, bad = answered + lost["model.response"], bad + lost["model.error"]
    refused += lost["model.denied"]
    ledger = {"sent": answered + refused + bad, "ok": answered, "refused": refused, "failed": bad}
    return tuple(Compared(what=name, agent=cast(int, count[name]), ledger=found) for name, found in ledger.items())


def lost_types(evidence: Evidence) -> Counter[str]:
    """Events that ledger and receipt say are missing, by type."""
    lost: Counter[str] = Counter()
    told = [cast(JsonObject, gap["lost"])["types"] for gap in evidence.of("x-docket.ledger-gap")]
    for types in (*told, evidence.member("ops.evidence.gaps")):
        if isinstance(types, dict):
            lost.update({name: number for name, number in types.items() if isinstance(number, int)})
    return lost
