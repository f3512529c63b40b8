"""What a rule found, as values: on which events it rests, and what it came to in money.

Invariant: a figure says how it relates to the truth, and what is not known is never zero. Nothing private stands in a
finding: it goes into the public part of a receipt.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from docket.ledger.events import ModelError, ModelResponse
from docket.primitives.canonical import Json, JsonObject
from docket.primitives.frozen import frozen, value
from docket.primitives.money import Usd

Severity: TypeAlias = Literal["info", "warning", "error"]
"""Worth knowing; money or time is being lost; something happened that must not."""
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
Confidence: TypeAlias = Literal["deterministic", "heuristic"]
"""The events show it by themselves; they look like it, and somebody who knows the task has to judge."""
Relation: TypeAlias = Literal["exact", "at-least", "at-most", "unknown"]
"""How the figure of an impact relates to what the finding cost."""
MAX_SEQS = 20
"""Events that a finding lists: the first ones; its count is of all."""
MAX_NAME = 80
"""Characters of a model's or upstream's name that a finding quotes: whoever made the call chose it."""


@value
class Impact:
    """What a finding cost, in USD. ``usd`` is None exactly when ``relation`` is ``unknown``."""

    relation: Relation
    usd: Usd | None = None

    def to_json(self) -> JsonObject:
        return {"is": self.relation} if self.usd is None else {"is": self.relation, "usd": str(self.usd)}


UNKNOWN = Impact("unknown")
NOTHING = Impact("exact", Usd(0))
"""Nothing was billed: of what was never sent."""


@frozen
class Finding:
    """One thing that a rule found in a run."""

    rule: str
    severity: Severity
    confidence: Confidence
    summary: str
    seqs: tuple[int, ...]
    """The first events that it rests on, at most MAX_SEQS."""
    count: int
    """The number of all of them."""
    impact: Impact
    remedy: str

    def to_json(self) -> JsonObject:
        """Return the finding as it stands in a receipt (evidence format R-14)."""
        seqs: list[Json] = list(self.seqs)
        return {
            "rule": self.rule,
            "severity": self.severity,
            "confidence": self.confidence,
            "summary": self.summary,
            "seqs": seqs,
            "count": self.count,
            "impact": self.impact.to_json(),
            "remedy": self.remedy,
        }


class Basis:
    """The events that a finding rests on: the first few, and how many there are."""

    __slots__ = ("count", "seqs")

    def __init__(self) -> None:
        self.seqs: list[int] = []
        self.count = 0

    def add(self, seq: int) -> None:
        """Take one more event; ``seq`` in any order, each once."""
        self.count += 1
        if len(self.seqs) < MAX_SEQS:
            self.seqs.append(seq)

    def add_all(self, other: Basis) -> None:
        """Take the events of ``other`` too."""
        self.seqs = (self.seqs + other.seqs)[:MAX_SEQS]
        self.count += other.count


class Cost:
    """A sum of bills that knows what it does not know: parts that may be missing, and parts that may be too dear."""

    __slots__ = ("above", "below", "pico")

    def __init__(self, pico: int = 0, below: int = 0, above: int = 0) -> None:
        self.pico = pico
        self.below = below
        """Bills that are not known whole: the truth may be more."""
        self.above = above
        """Bills that were read as the dearest: the truth may be less."""

    def add(self, end: ModelResponse | ModelError) -> None:
        """Take the bill of a call; a call without usage was not billed (evidence format section 5)."""
        usage = end.usage
        if usage is None:
            return
        if usage.cost_usd is not None:
            self.pico += usage.cost_usd.pico
        self.below += usage.cost_usd is None or usage.source != "reported"
        self.above += bool(usage.assumed)

    def add_all(self, other: Cost) -> None:
        """Take what ``other`` holds too."""
        self.pico += other.pico
        self.below += other.below
        self.above += other.above

    def since(self, earlier: Cost) -> Cost:
        """Return what was added to this sum after it was ``earlier``."""
        return Cost(self.pico - earlier.pico, self.below - earlier.below, self.above - earlier.above)

    def copy(self) -> Cost:
        return Cost(self.pico, self.below, self.above)

    def impact(self) -> Impact:
        """Return this as what a finding cost."""
        if self.below:
            return UNKNOWN if self.above or not self.pico else Impact("at-least", Usd(self.pico))
        return Impact("at-most" if self.above else "exact", Usd(self.pico))

    def bound(self) -> Impact:
        """Return this as the most that a finding can have cost."""
        return UNKNOWN if self.below else Impact("at-most", Usd(self.pico))


def named(text: str) -> str:
    """Return a name that a finding quotes, cut to MAX_NAME characters."""
    return text if len(text) <= MAX_NAME else text[: MAX_NAME - 1] + "…"
