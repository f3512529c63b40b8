"""``docket budget``: budgets that many runs share. What they allow, what is left, who spent it."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from docket.cli import exit_codes, options, output

if TYPE_CHECKING:
    from docket.fleet.model import Limits, State
    from docket.fleet.store import Store

store = click.option(
    "--store",
    "url",
    metavar="URL",
    envvar="DOCKET_STORE",
    show_envvar=True,
    help="sqlite:///path or postgresql://host/database; a file in your data directory if left out.",
)


@click.group("budget")
def command() -> None:
    """Budgets that many runs share: `docket run --budget NAME` takes from one before it spends.

    \b
      docket store init
      docket budget create team --max-usd 200 --per day --tz Europe/Berlin
      docket run --budget team -- python agent.py
      docket budget show team
    """


def _limits(usd: str | None, tokens: str | None, calls: str | None) -> Limits:
    from docket.errors import UsageError
    from docket.fleet.model import Limits
    from docket.policy.kinds import Amount, Count

    try:
        return Limits(
            None if usd is None else Amount().read_text(usd).pico,
            None if tokens is None else Count().read_text(tokens),
            None if calls is None else Count().read_text(calls),
        )
    except ValueError as error:
        raise UsageError(str(error)) from error


@contextmanager
def opened(url: str | None) -> Iterator[Store]:
    """The store that a call means. Raises StoreError, StoreAwayError, UsageError."""
    from docket.fleet.places import open_store, store_url

    found = open_store(store_url(url, os.environ))
    try:
        yield found
    finally:
        found.close()


_usd = click.option("--max-usd", metavar="USD", help="US dollars in a period.")
_tokens = click.option("--max-tokens", metavar="N", help="Tokens of all kinds in a period.")
_calls = click.option("--max-calls", metavar="N", help="Model calls in a period.")


@command.command("create")
@click.argument("name")
@_usd
@_tokens
@_calls
@click.option(
    "--per", default="total", show_default=True, metavar="PERIOD", help="day, week, month, total, or rolling:24h."
)
@click.option("--tz", default="UTC", show_default=True, metavar="ZONE", help="Where a day begins, as Europe/Berlin.")
@click.option("--parent", metavar="NAME", help="A budget that is charged as well.")
@store
def create(
    name: str,
    max_usd: str | None,
    max_tokens: str | None,
    max_calls: str | None,
    per: str,
    tz: str,
    parent: str | None,
    url: str | None,
) -> None:
    """Make the budget NAME."""
    from docket.fleet.periods import Period

    limits, period = _limits(max_usd, max_tokens, max_calls), Period.parse(per, tz)
    with opened(url) as found:
        found.create(name, limits, period, parent)
    output.result(f"budget {name}: {_shown(limits)}, {_per(per)}")


@command.command("set")
@click.argument("name")
@_usd
@_tokens
@_calls
@store
def change(name: str, max_usd: str | None, max_tokens: str | None, max_calls: str | None, url: str | None) -> None:
    """Change what the budget NAME allows from now on; a limit that is not given stays."""
    from docket.fleet.model import Limits

    given = _limits(max_usd, max_tokens, max_calls)
    with opened(url) as found:
        before = found.state(name).budget.limits
        pairs = zip(before, given, strict=True)
        limits = Limits(*(old if new is None else new for old, new in pairs))
        found.set_limits(name, limits)
    output.result(f"budget {name}: {_shown(limits)}")


@command.command("show")
@click.argument("name")
@options.as_json
@store
def show(name: str, as_json: bool, url: str | None) -> None:
    """Show what the budget NAME allows, and what of it is spent, leased and left."""
    with opened(url) as found:
        state = found.state(name)
    if as_json:
        output.document(_to_json(state))
        return
    budget = state.budget
    period = "" if budget.period.text == "total" else f" ({budget.period.zone.key})"
    output.result(f"{budget.name}{' (closed)' if budget.closed else ''}: {_per(budget.period.text)}{period}")
    output.table(("", "limit", "spent", "leased", "left"), list(_rows(state)))
    if state.parent is not None:
        output.result(f"charged to {state.parent} as well")
    output.result(f"{state.runs} runs hold a lease" + (f"; the period ends {_time(state.ends)}" if state.ends else ""))


@command.command("ls")
@options.as_json
@store
def ls(as_json: bool, url: str | None) -> None:
    """List the budgets."""
    with opened(url) as found:
        states = found.states()
    if as_json:
        output.document([_to_json(state) for state in states])
        return
    rows = [
        (
            state.budget.name,
            state.parent or "",
            state.budget.period.text,
            _shown(state.budget.limits),
            _shown(state.used),
            "closed" if state.budget.closed else f"{state.runs} runs",
        )
        for state in states
    ]
    output.table(("budget", "parent", "per", "limit", "used", "state"), rows)


@command.command("history")
@click.argument("name")
@click.option(
    "--most", type=click.IntRange(1, 100_000), default=100, show_default=True, help="Leases shown, the newest."
)
@click.option("--csv", "as_csv", is_flag=True, help="Comma-separated values.")
@options.as_json
@store
def history(name: str, most: int, as_csv: bool, as_json: bool, url: str | None) -> None:
    """Show who took what from the budget NAME, newest first."""
    with opened(url) as found:
        leases = found.history(name, most)
    rows: list[dict[str, Any]] = [
        {
            "taken": _time(lease.taken),
            "run": lease.run,
            "label": lease.label,
            "machine": lease.machine,
            "state": "settled" if lease.settled else "open",
            **{f"leased_{kind}": figure for kind, figure in _members(lease.granted).items()},
            **{f"used_{kind}": figure if lease.settled else None for kind, figure in _members(lease.used).items()},
        }
        for lease in leases
    ]
    if as_json:
        output.document(rows)
    elif as_csv:
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]) if rows else ["taken", "run"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        output.result(text.getvalue().rstrip("\n"))
    else:
        head = ("taken", "run", "label", "machine", "state", "leased", "used")
        cells = [
            (
                row["taken"],
                row["run"],
                row["label"],
                row["machine"],
                row["state"],
                _shown(lease.granted),
                _shown(lease.used) if lease.settled else "",
            )
            for row, lease in zip(rows, leases, strict=True)
        ]
        output.table(head, cells)


@command.command("close")
@click.argument("name")
@store
def close(name: str, url: str | None) -> None:
    """Let no run take from the budget NAME any more. What is leased can still be spent and settled."""
    with opened(url) as found:
        found.close_budget(name)
    output.result(f"budget {name} is closed")


@command.command("settle")
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option("--all", "every", is_flag=True, help="Every run of this docket directory that holds leases.")
@options.docket_dir
@store
def settle(run: Path | None, every: bool, docket_dir: Path, url: str | None) -> int:
    """Give back what RUN, which has ended or died, leased and did not spend: by its ledger, exactly.

    A run that died is closed first, with `docket doctor --close`. Exit status 1: some could not be settled.
    """
    from docket.errors import DocketError, UsageError
    from docket.storage.paths import find_run
    from docket.supervisor.settlement import settle_run

    if (run is None) == (not every):
        raise UsageError("name a run, or say --all", hint="docket budget settle latest")
    status = exit_codes.OK
    with opened(url) as found:
        if run is not None:
            paths = [find_run(docket_dir, run)]
        else:
            paths = [docket_dir / "runs" / name for name, _, _ in found.unsettled()]
            away = [path.name for path in paths if not path.is_dir()]
            for name in away:
                output.remark(f"{name} is not in {docket_dir}: settle it on its own machine")
            paths = [path for path in paths if path.name not in away]
        for path in paths:
            try:
                settled = settle_run(path, found)
            except DocketError as error:
                output.failure(f"{path.name}: {error}", error.hint)
                status = exit_codes.FAILED
                continue
            output.result(f"{path.name}: {_shown(settled.spent)} charged, {_shown(settled.returned)} given back")
    return status


def _figure(at: int, amount: int) -> str:
    """An amount of the dimension ``at``, as a decimal."""
    from docket.primitives.money import Usd

    return str(Usd(amount)) if at == 0 else str(amount)


def _shown(amounts: Sequence[int | None]) -> str:
    """What stands in ``amounts``, with units; None is left out."""
    kinds = ("USD", "tokens", "calls")
    return ", ".join(f"{_figure(at, each)} {kinds[at]}" for at, each in enumerate(amounts) if each is not None)


def _members(amounts: Sequence[int | None]) -> dict[str, str | int | None]:
    """``amounts`` for JSON: dollars as a decimal in a string."""
    usd, tokens, calls = amounts
    return {"usd": None if usd is None else _figure(0, usd), "tokens": tokens, "calls": calls}


def _per(period: str) -> str:
    if period == "total":
        return "once and for all"
    return f"in any {period[8:-1]} hours" if period.startswith("rolling:") else f"a {period}"


def _rows(state: State) -> Iterator[Sequence[str]]:
    for at, limit in enumerate(state.budget.limits):
        if limit is not None:
            used, held = state.used[at], state.held[at]
            figures = (limit, used - held, held, max(0, limit - used))
            yield ("USD", "tokens", "calls")[at], *(_figure(at, amount) for amount in figures)


def _to_json(state: State) -> dict[str, Any]:
    budget = state.budget
    return {
        "name": budget.name,
        "parent": state.parent,
        "per": budget.period.text,
        "zone": budget.period.zone.key,
        "closed": budget.closed,
        "limit": _members(budget.limits),
        "used": _members(state.used),
        "leased": _members(state.held),
        "runs": state.runs,
        "ends": _time(state.ends) if state.ends else None,
    }


def _time(us: int) -> str:
    from docket.primitives.instant import timestamp

    return timestamp(us)[:19] + "Z"
