"""Findings in words, for a person: one fact a line."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from docket.findings.fold import Need
from docket.findings.model import MAX_SEQS, Finding, Impact

WIDTH = 100
_RELATIONS = {"exact": "", "at-least": "at least ", "at-most": "at most "}


def lines(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield the lines of ``findings``."""
    for finding in findings:
        yield f"{finding.severity}: {finding.rule} ({finding.confidence})"
        yield from _wrapped("", finding.summary)
        yield f"  impact  {impact(finding.impact)}"
        yield f"  events  {events(finding)}"
        yield from _wrapped("remedy  ", finding.remedy)


def needs(lacking: Sequence[Need]) -> Iterator[str]:
    """Yield what rules could not see, and what they would need for it."""
    for need in lacking:
        yield from _wrapped(f"{need.rule}: ", need.text)


def impact(of: Impact) -> str:
    """Return an impact in words: ``at most 0.012 USD``; what is not known is said to be unknown."""
    return "unknown" if of.usd is None else f"{_RELATIONS[of.relation]}{of.usd} USD"


def events(finding: Finding) -> str:
    """Return the events of a finding, the first ones by their ``seq``."""
    listed = ", ".join(map(str, finding.seqs))
    return listed if finding.count <= MAX_SEQS else f"{listed}, ... ({finding.count:,} in all)"


def _wrapped(title: str, text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=f"  {title}", subsequent_indent=" " * (2 + len(title)))
