"""What every rule is, and a call as rules see it: its request and its end together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from docket.findings.model import Confidence, Finding, Impact, Severity
from docket.ledger.chain import Entry
from docket.ledger.events import ModelError, ModelRequest, ModelResponse
from docket.ledger.usage import Item
from docket.primitives.frozen import value

MAX_GROUPS = 256
"""Models, upstreams and the like that a rule tells apart, in order of appearance; it does not look at later ones."""
PER_MILLION = 1_000_000
ERROR = 400
"""The least HTTP status of an error (RFC 9110 section 15.5)."""
_CONTEXT = ("input", "cache_")
_OUTPUT = ("output", "reasoning")


@value
class Call:
    """A call that ended."""

    request: ModelRequest
    end: ModelResponse | ModelError
    request_seq: int
    end_seq: int
    begun_us: int
    ended_us: int
    context: int
    """Tokens that were sent: fresh, read from a cache, written to one."""
    output: int
    """Tokens that came back, with those of reasoning."""
    key: tuple[str, str]
    """Provider and model, as the bill names them."""
    items: tuple[Item, ...]
    metered: bool
    """Whether the provider said how many tokens it were."""


def call_of(request: ModelRequest, at: tuple[int, int], end: ModelResponse | ModelError, entry: Entry) -> Call:
    """Return the call that ``request``, at (seq, elapsed_us) ``at``, and ``end`` in ``entry`` make."""
    usage, context, output = end.usage, 0, 0
    items = usage.items if usage is not None else ()
    for item in items:
        if item.kind.startswith(_CONTEXT):
            context += item.quantity
        elif item.kind.startswith(_OUTPUT):
            output += item.quantity
    key, metered = (end.provider, end.model), usage is not None and usage.source == "reported"
    return Call(request, end, at[0], entry.seq, at[1], entry.elapsed_us, context, output, key, items, metered)


def hung_up(call: Call) -> bool:
    """Return whether the agent left before an answer ended; to leave the text of an error unread is no such thing."""
    return call.end.reason == "client-gone" and (call.end.status is None or call.end.status < ERROR)


class Rule:
    """One rule: a fold in memory that does not grow with the run."""

    name: ClassVar[str]
    severity: ClassVar[Severity]
    remedy: ClassVar[str]
    types: ClassVar[tuple[str, ...]] = ()
    """Types of the events that ``event`` is given."""

    def __init__(self, thresholds: Mapping[str, int]) -> None:
        """``thresholds`` by their full names."""
        begin = f"{self.name}."
        self.limits = {name.removeprefix(begin): value for name, value in thresholds.items() if name.startswith(begin)}
        """This rule's thresholds, without its name before them."""

    def call(self, call: Call) -> None:
        """Take the next call that ended."""

    def event(self, entry: Entry) -> None:
        """Take the next event of ``types``."""

    def findings(self) -> Iterator[Finding]:
        """Yield what was found so far; may be asked again later."""
        yield from ()

    def needs(self) -> str | None:
        """Return what the ledger lacks for this rule to say anything, or to say more; None where it has it all."""
        return None

    def found(self, confidence: Confidence, summary: str, seqs: list[int], count: int, impact: Impact) -> Finding:
        """Return a finding of this rule; ``seqs`` in any order."""
        return Finding(
            rule=self.name,
            severity=self.severity,
            confidence=confidence,
            summary=summary,
            seqs=tuple(sorted(seqs)),
            count=count,
            impact=impact,
            remedy=self.remedy,
        )
