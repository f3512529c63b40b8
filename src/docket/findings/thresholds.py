"""From where on a pattern is a finding: every threshold of every rule, in one table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from docket.errors import UsageError

MAX_VALUE = 10**9


@dataclass(frozen=True, slots=True)
class Threshold:
    """One row: ``RULE.NAME``, its value unless it is set, and what it counts."""

    name: str
    default: int
    meaning: str


TABLE: tuple[Threshold, ...] = (
    Threshold("runaway-loop.repeats", 5, "times that one request was sent again after it had been answered"),
    Threshold("retry-storm.calls", 5, "calls to one upstream that failed one after the other, without a success"),
    Threshold("retry-storm.seconds", 60, "seconds from a failure to the next try, above which it is no storm"),
    Threshold("tool-failure-loop.failures", 3, "results of one tool that failed, without one that did not"),
    Threshold("cache-miss.calls", 5, "calls in a row that sent a growing context, or wrote a cache, and read none"),
    Threshold("cache-miss.tokens", 4096, "tokens of context from which on a provider's cache is worth it"),
    Threshold("fat-context.calls", 5, "calls that sent much and asked for little"),
    Threshold("fat-context.tokens", 100_000, "tokens of context that are much"),
    Threshold("fat-context.answer-percent", 2, "output in percent of the context, below which it is little"),
    Threshold("premium-for-small-calls.calls", 10, "small calls to a dear model"),
    Threshold("premium-for-small-calls.context", 2000, "tokens of context of a small call, at most"),
    Threshold("premium-for-small-calls.output", 200, "tokens of output of a small call, at most"),
    Threshold("premium-for-small-calls.usd", 10, "USD for a million tokens of output from which on a model is dear"),
    Threshold("concentration.calls", 20, "calls with a bill, below which a few dear ones are no pattern"),
    Threshold("concentration.percent", 50, "percent of the spend in the three dearest calls"),
    Threshold("concentration.cents", 1, "US cents of spend, below which it does not matter"),
    Threshold("truncated-answers.calls", 3, "answers of one model that its output limit cut off"),
    Threshold("truncated-answers.percent", 5, "percent of that model's answers"),
    Threshold("truncated-answers.limit", 16, "tokens of output limit up to which a cut is what was asked for"),
    Threshold("idle-spend.gone", 3, "answers that the agent did not wait for"),
    Threshold("idle-spend.polls", 10, "calls in a row that came after a pause and got next to nothing"),
    Threshold("idle-spend.pause", 20, "seconds of pause before such a call, at least"),
    Threshold("idle-spend.output", 20, "tokens of output that are next to nothing, at most"),
    Threshold("policy-denials.final", 5, "refusals of one code that no waiting helps"),
    Threshold("policy-denials.temporary", 20, "refusals of one code that ask to wait"),
    Threshold("write-scope.paths", 1, "changes of what the policy says must not change"),
)
DEFAULTS: Mapping[str, int] = MappingProxyType({row.name: row.default for row in TABLE})
"""What applies where nothing is set, and at the seal of every run."""


def with_settings(settings: Iterable[str]) -> Mapping[str, int]:
    """Return the thresholds with ``settings`` (each ``RULE.NAME=NUMBER``) in place of defaults.

    Raises UsageError for an unknown name and for what is no whole number from 1 to MAX_VALUE.
    """
    values = dict(DEFAULTS)
    for setting in settings:
        name, equals, number = setting.partition("=")
        if name not in values:
            raise UsageError(f"no threshold {name!r}", hint="docket explain --thresholds lists them")
        if not equals or not number.isascii() or not number.isdigit() or not 1 <= int(number[:12]) <= MAX_VALUE:
            raise UsageError(f"{setting!r}: not {name}=NUMBER with a whole number from 1 to {MAX_VALUE}")
        values[name] = int(number)
    return values
