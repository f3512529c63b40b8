"""What a drill found: expected against observed, a timeline and plots; as Markdown for people and JSON for programs.

Owns the form of the post-mortem. A phase passes only if every check that it states holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from docket.chaos.plots import Plot, svg
from docket.primitives.canonical import JsonObject

MAX_MOMENTS = 40
"""Lines of one timeline: a person reads it. The ledger has the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One expectation, and what was found where."""

    what: str
    where: str
    """``ledger``, ``receipt``, ``metrics``, ``disk``, ``process`` or ``agent``."""
    expected: str
    observed: str
    ok: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Something that happened: seconds since the run started, and a sentence."""

    seconds: float
    what: str


@dataclass(slots=True, kw_only=True)
class PhaseReport:
    """One phase of a game day."""

    id: str
    title: str
    expectation: str
    seconds: float = 0.0
    checks: list[Check] = field(default_factory=list)
    timeline: list[Moment] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    skipped: str | None = None
    """Why nothing was tried; a skipped phase is neither passed nor failed."""

    @property
    def passed(self) -> bool:
        return self.skipped is None and bool(self.checks) and all(check.ok for check in self.checks)

    @property
    def verdict(self) -> str:
        return "SKIP" if self.skipped is not None else "PASS" if self.passed else "FAIL"

    def check(self, what: str, where: str, *, expected: object, observed: object, ok: bool | None = None) -> None:
        """State an expectation and what was found; without ``ok`` the two must be equal."""
        holds = expected == observed if ok is None else ok
        self.checks.append(Check(what=what, where=where, expected=str(expected), observed=str(observed), ok=holds))


@dataclass(frozen=True, slots=True, kw_only=True)
class GameDay:
    """A whole game day; ``host`` says on what machine, ``began`` when (RFC 3339)."""

    began: str
    host: str
    command: str
    phases: Sequence[PhaseReport]

    @property
    def passed(self) -> bool:
        return all(phase.passed or phase.skipped is not None for phase in self.phases)


def to_json(day: GameDay) -> JsonObject:
    """The report for programs. Times are whole milliseconds."""
    return {
        "format": "docket-game-day/1",
        "began": day.began,
        "host": day.host,
        "command": day.command,
        "passed": day.passed,
        "phases": [_phase_json(phase) for phase in day.phases],
    }


def _phase_json(phase: PhaseReport) -> JsonObject:
    document: JsonObject = {
        "id": phase.id,
        "verdict": phase.verdict,
        "expectation": phase.expectation,
        "duration_ms": round(phase.seconds * 1000),
        "checks": [
            {"what": c.what, "where": c.where, "expected": c.expected, "observed": c.observed, "ok": c.ok}
            for c in phase.checks
        ],
        "timeline": [{"at_ms": round(moment.seconds * 1000), "what": moment.what} for moment in phase.timeline],
    }
    return document | ({} if phase.skipped is None else {"skipped": phase.skipped})


def plot_files(day: GameDay) -> dict[str, str]:
    """SVG text by file name, one a plot."""
    return {
        plot_name(phase, number): svg(plot) for phase in day.phases for number, plot in enumerate(phase.plots, start=1)
    }


def plot_name(phase: PhaseReport, number: int) -> str:
    return f"{phase.id}-{number}.svg"


def to_markdown(day: GameDay) -> str:
    """The post-mortem for people."""
    lines = [f"# Game day: {'passed' if day.passed else 'FAILED'}", ""]
    lines += [f"{day.began}, {day.host}", "", f"`{day.command}`", "", "| phase | verdict | seconds | checks |"]
    lines += ["| --- | --- | --- | --- |"]
    for phase in day.phases:
        held = sum(check.ok for check in phase.checks)
        counted = phase.skipped or f"{held} of {len(phase.checks)} hold"
        lines.append(f"| [{phase.title}](#{phase.id}) | {phase.verdict} | {phase.seconds:.1f} | {_cell(counted)} |")
    for phase in day.phases:
        lines += ["", *_phase_markdown(phase)]
    return "\n".join(lines) + "\n"


def _phase_markdown(phase: PhaseReport) -> list[str]:
    lines = [f'## <a id="{phase.id}"></a>{phase.title}: {phase.verdict}', "", phase.expectation]
    if phase.skipped is not None:
        return [*lines, "", f"Not tried: {phase.skipped}."]
    lines += ["", "| | expected | observed | read from |", "| --- | --- | --- | --- |"]
    for check in phase.checks:
        what = check.what if check.ok else f"**{check.what}**"
        lines.append(f"| {_cell(what)} | {_cell(check.expected)} | {_cell(check.observed)} | {check.where} |")
    for number, plot in enumerate(phase.plots, start=1):
        lines += ["", f"![{plot.title}]({plot_name(phase, number)})"]
    if phase.timeline:
        lines += ["", "Timeline (seconds since the run started):", ""]
        lines += [f"- {moment.seconds:8.3f} {moment.what}" for moment in phase.timeline[:MAX_MOMENTS]]
        if len(phase.timeline) > MAX_MOMENTS:
            lines.append(f"- and {len(phase.timeline) - MAX_MOMENTS} more, see the ledger")
    return lines


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
