"""``docket diff``: two runs beside each other, for a person, and as a gate in CI."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from docket.cli import exit_codes, options, output
from docket.cli.ledger import Walked, walk
from docket.errors import UsageError

if TYPE_CHECKING:
    from docket.receipt.difference import Change, Prices, Profile

MAX_LISTED = 20
"""Rows of a list (models, tools, prices) that a person is shown; ``--json`` has all."""
MAX_NAMED = 5
"""Members in which two policies differ that are named."""
GATES = ("cost", "calls", "tokens", "errors", "latency")
_PERCENT = re.compile(r"[0-9]{1,6}(\.[0-9]{1,3})?%?")
_KNOWN = {"lower-bound": "at least ", "approximate": "about "}


@dataclass(frozen=True, slots=True)
class _Side:
    name: str
    walked: Walked
    profile: Profile


@click.command("diff")
@options.docket_dir
@click.argument("a", type=click.Path(path_type=Path), metavar="A")
@click.argument("b", type=click.Path(path_type=Path), metavar="B")
@options.as_json
@click.option(
    "--fail-over", "limit", metavar="PERCENT", help="Exit with 1 where B is larger by more than this, for CI."
)
@click.option(
    "--of",
    "gates",
    multiple=True,
    type=click.Choice(GATES),
    help="What --fail-over looks at; may be given more than once.  [default: cost]",
)
def command(docket_dir: Path, a: Path, b: Path, as_json: bool, limit: str | None, gates: tuple[str, ...]) -> int:
    """Say in what run B differs from run A: spend, calls, tokens, models, prices, tools, files, findings, latency.

    A and B are run directories, docket numbers, latest, archives or ledgers. A change of cost is split into what other
    prices did and what other use did. "noise" marks a difference that two runs of the same kind may show by chance, if
    their calls were independent draws; --fail-over counts it all the same.

    \b
    docket diff .docket/runs/DKT-... latest
    docket diff before.tar after.tar --fail-over 20%           a gate in CI: exit status 1
    docket diff A B --fail-over 10 --of calls --of tokens
    """
    from docket.receipt.difference import changes, prices

    percent = _percent(limit, gates)
    sides = [_read(docket_dir, name, path) for name, path in (("A", a), ("B", b))]
    one, other = (side.profile for side in sides)
    figures, priced = changes(one, other), prices(one, other)
    remarks = _remarks(sides)
    over = [] if percent is None else _over(figures, percent, gates or ("cost",))
    if as_json:
        document = {
            "a": _document(sides[0]),
            "b": _document(sides[1]),
            "changes": [figure.to_json() for figure in figures],
            "prices": priced.to_json(),
            "remarks": remarks,
            "over": over,
        }
        output.document(document)
    else:
        _tell(sides, figures, priced, remarks)
    for reason in over:
        output.remark(f"docket: {reason}")
    return exit_codes.FAILED if over else exit_codes.OK


def _percent(limit: str | None, gates: tuple[str, ...]) -> float | None:
    if limit is None:
        if gates:
            raise UsageError("--of says what --fail-over looks at", hint="give both: --fail-over 20% --of calls")
        return None
    if not _PERCENT.fullmatch(limit):
        raise UsageError(f"--fail-over {limit!r}: not a percentage", hint="for example --fail-over 20%")
    return float(limit.removesuffix("%"))


def _read(docket_dir: Path, name: str, path: Path) -> _Side:
    from docket.receipt.difference import Profile

    profile = Profile()
    return _Side(name, walk(docket_dir, path, profile.add), profile)


def _over(figures: list[Change], percent: float, gates: tuple[str, ...]) -> list[str]:
    """Why the gate does not hold, a reason each; a figure that is not known does not hold either."""
    reasons = []
    for figure in figures:
        gate = "latency" if figure.name == "latency p50" else figure.name
        if gate not in gates:
            continue
        if gate == "cost" and (figure.a is None or figure.b is None):
            reasons.append("the cost is not known of both: nothing says that it grew by no more")
        elif figure.grew_over(percent):
            grown = "from nothing" if figure.percent is None else f"by {figure.percent:.1f} %"
            chance = ", which may be chance" if figure.noise else ""
            reasons.append(f"{gate} grew {grown}, more than {percent:g} %{chance}")
    return reasons


def _remarks(sides: list[_Side]) -> list[str]:
    """What makes the two hard to compare."""
    from docket.receipt.difference import policies

    said = []
    for side in sides:
        walked, profile = side.walked, side.profile
        if walked.live:
            said.append(f"{side.name} goes on: its figures are those so far")
        elif walked.state == "dead":
            said.append(f"{side.name} has no end: it died, or was not read to its end")
        if walked.problem is not None:
            said.append(f"{side.name} was {walked.problem}")
        if profile.cost_is == "lower-bound":
            said.append(f"the cost of {side.name} is a lower bound: it may have been more")
        elif profile.cost_is == "approximate":
            said.append(f"the cost of {side.name} holds figures that docket read as the dearest")
        elif profile.cost_is == "none":
            said.append(f"the cost of {side.name} is not known")
        if profile.totals.activity.drill:
            said.append(f"{side.name} was a drill: faults were injected")
    one, other = (side.profile for side in sides)
    if others := policies(one, other):
        listed = ", ".join(others[:MAX_NAMED]) + (f" and {len(others) - MAX_NAMED} more" if others[MAX_NAMED:] else "")
        said.append(f"the policies differ in {listed}")
    if one.outcome is not None and other.outcome is not None and one.outcome != other.outcome:
        said.append(f"A {one.outcome}, B {other.outcome}: they may not have done the same work")
    return said


def _document(side: _Side) -> dict[str, Any]:
    walked = side.walked
    return {
        "run": walked.run, "state": walked.state, "events": walked.events, "problem": walked.problem,
        **side.profile.to_json(),
    }  # fmt: skip


def _tell(sides: list[_Side], figures: list[Change], priced: Prices, remarks: list[str]) -> None:
    from docket.receipt.difference import counts

    one, other = (side.profile for side in sides)
    for side in sides:
        outcome = side.profile.outcome or side.walked.state
        output.result(output.one_line(f"{side.name}  {side.walked.run}: {outcome}, {side.walked.events:,} events"))
    output.result("")
    rows = [_row(figure, one, other) for figure in figures]
    output.table(("", "A", "B", "change", ""), rows)
    sections = [
        ("Prices", _price_lines(priced)),
        ("Models", _models(one, other)),
        ("Tokens", _counted(counts(one.totals.tokens, other.totals.tokens))),
        ("Tools, by the word of the agent", _counted(counts(one.tools, other.tools))),
        ("Files", _counted(counts(one.totals.activity.changes, other.totals.activity.changes))),
        ("Findings", _findings(one, other)),
    ]
    for title, lines in sections:
        if lines:
            output.result(f"\n{title}:")
        for line in lines[:MAX_LISTED]:
            output.result(f"  {output.one_line(line)}")
        if len(lines) > MAX_LISTED:
            output.result(f"  and {len(lines) - MAX_LISTED:,} more (--json lists them)")
    if remarks:
        output.result("")
    for remark in remarks:
        output.result(output.one_line(f"note: {remark}"))


def _row(figure: Change, one: Profile, other: Profile) -> tuple[str, ...]:
    shown = [_amount(figure, amount) for amount in (figure.a, figure.b)]
    if figure.name == "cost":
        shown = [_KNOWN.get(profile.cost_is, "") + text for profile, text in zip((one, other), shown, strict=True)]
    if figure.a == figure.b:
        change = "" if figure.a is not None else "not known"
    elif figure.percent is None:
        change = "not known" if figure.a is None or figure.b is None else "new"
    else:
        change = f"{figure.percent:+.1f} %"
    return figure.name, *shown, change, "noise" if figure.noise else ""


def _amount(figure: Change, amount: int | None) -> str:
    if amount is None:
        return "unknown"
    if figure.unit == "us":
        return f"{amount / 1_000_000:.3f} s"
    if figure.unit == "usd":
        from docket.primitives.money import spelled

        return f"{spelled(amount)} USD"
    return f"{amount:,}"


def _price_lines(priced: Prices) -> list[str]:
    from docket.primitives.money import spelled

    lines = ["the price tables differ"] if priced.tables_differ else []
    lines += [f"{name}: {was} in A, {now} in B" for name, was, now in priced.changed]
    lines += [f"{name}: several prices, which differ" for name in priced.unclear]
    if priced.changed or priced.unclear:
        if priced.by_price is None or priced.by_use is None:
            lines.append("what prices did cannot be told apart from what use did")
        else:
            lines.append(f"other prices made {_signed(spelled(priced.by_price))} USD of the change of cost")
            lines.append(f"other use made {_signed(spelled(priced.by_use))} USD")
    elif priced.tables_differ:
        lines.append("but nothing that both runs used has another price")
    return lines


def _signed(amount: str) -> str:
    return amount if amount.startswith("-") else f"+{amount}"


def _models(one: Profile, other: Profile) -> list[str]:
    before, after = one.models(), other.models()
    lines = []
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) == after.get(name):
            continue
        told = [
            "not used" if row is None else f"{row['calls']:,} calls, {row['cost_usd'] or 'unknown'} USD"
            for row in (before.get(name), after.get(name))
        ]
        lines.append(f"{name}: {told[0]} → {told[1]}")
    return lines


def _counted(rows: Any) -> list[str]:
    return [f"{name}: {was:,} → {now:,}" for name, was, now in rows]


def _findings(one: Profile, other: Profile) -> list[str]:
    before, after = one.findings.found(), other.findings.found()
    lines = []
    for rule in dict.fromkeys(finding.rule for finding in [*before, *after]):
        was = sum(finding.count for finding in before if finding.rule == rule)
        now = sum(finding.count for finding in after if finding.rule == rule)
        if was != now:
            word = "new" if not was else "gone" if not now else "still there"
            lines.append(f"{rule}: {word}, {was:,} → {now:,} events")
    return lines
