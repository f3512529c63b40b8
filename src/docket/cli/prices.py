"""``docket prices``: what a model costs by the table that a run would use, and by which rule its name was found."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from docket.cli import exit_codes, options, output
from docket.errors import UsageError

if TYPE_CHECKING:
    from docket.pricing.table import ModelPrices, PriceTable


@click.command("prices")
@click.argument("model", required=False)
@click.option("--provider", metavar="NAME", help="Only this provider: openai, anthropic, google, ...")
@click.option(
    "--at", metavar="DATE", help="The day (UTC) whose prices count, for example 2026-01-31; today if left out."
)
@click.option("--prices", "file", type=click.Path(path_type=Path), help="A price table instead of the shipped one.")
@click.option("--from", "source", metavar="PACKAGE", help="With `import`: the source, genai-prices.")
@click.option("--out", type=click.Path(path_type=Path), help="With `import`: where the table is written.")
@options.as_json
def command(
    model: str | None,
    provider: str | None,
    at: str | None,
    file: Path | None,
    source: str | None,
    out: Path | None,
    as_json: bool,
) -> int:
    """Show the prices of MODEL, or what the table holds. ``docket prices import`` makes a table.

    MODEL is a name as a provider's answer would state it. The rule by which it was found is shown: exact, or after a
    prefix, a version or a date was dropped. Exit status 1 when the table has no price for it.

    ``docket prices import --from genai-prices --out FILE`` writes a table from the installed package of that name, and
    lists every price that it rounded and everything that it left out.
    """
    if model == "import":
        return _import(source, out, at)
    from docket.storage.price_file import read_prices

    table = read_prices(file, _day(at))
    if model is None:
        _about(table, provider, as_json)
        return exit_codes.OK
    rows = list(_rows(table, model, provider))
    if as_json:
        output.document({"model": model, "at": table.at, "table": _identity(table), "rows": rows})
    elif rows:
        head = ("provider", "model", "rule", "tier", "kind", "usd", "per")
        output.table(head, [[str(row[name]) for name in head] for row in rows])
        output.remark(f"in force on {table.at}; table of {table.date}, {table.source} {table.version}")
    else:
        near = difflib.get_close_matches(model.lower(), [prices.model for prices in _models(table, provider)], n=3)
        output.failure(
            f"no price for {model!r} on {table.at}",
            f"near: {', '.join(near)}" if near else "under a USD cap such a call is refused; see [budget] unpriced",
        )
    return exit_codes.OK if rows else exit_codes.FAILED


def _day(at: str | None) -> str:
    if at is None:
        from docket.clock import SystemClock
        from docket.primitives.instant import timestamp

        return timestamp(SystemClock().unix_us())[:10]
    try:
        if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", at):
            raise ValueError(at)
        return date.fromisoformat(at).isoformat()
    except ValueError as error:
        raise UsageError(f"--at: {at!r} is no day such as 2026-01-31") from error


def _import(source: str | None, out: Path | None, at: str | None) -> int:
    if source != "genai-prices" or out is None:
        raise UsageError("import needs --from genai-prices and --out FILE")
    try:
        from importlib.metadata import version

        from genai_prices import data
    except ImportError as error:
        raise UsageError("genai-prices is not installed", hint="pip install genai-prices") from error
    from docket.pricing.price_import import table_of

    done = table_of(data.providers, version=version("genai-prices"), day=_day(at))
    try:
        out.write_bytes(done.document)
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror}") from error
    for line in done.rounded:
        output.result(f"rounded   {output.cell(line)}")
    for line in sorted(set(done.left_out)):
        output.result(f"left out  {output.cell(line)}")
    output.remark(f"{out}: {done.models} models, {done.rows} rows, digest {done.digest}")
    return exit_codes.OK


def _models(table: PriceTable, provider: str | None) -> Iterator[ModelPrices]:
    return (prices for prices in table.models() if provider in (None, prices.provider))


def _rows(table: PriceTable, model: str, provider: str | None) -> Iterator[dict[str, Any]]:
    """The rows that ``model`` resolves to, at each provider that sells it."""
    for name in sorted({prices.provider for prices in _models(table, provider)}):
        found = table.resolve(name, model)
        if found is None:
            continue
        for tier, rates in sorted(table.tiers(found.prices).items()):
            for kind, price in sorted(rates.items()):
                yield {
                    "provider": name,
                    "model": found.prices.model,
                    "rule": found.rule,
                    "tier": tier,
                    "kind": kind,
                    "usd": str(price.unit_usd),
                    "per": price.per,
                }


def _identity(table: PriceTable) -> dict[str, str]:
    return {"source": table.source, "version": table.version, "date": table.date, "digest": table.digest()}


def _about(table: PriceTable, provider: str | None, as_json: bool) -> None:
    """What the table holds: one line a provider, or the names of one provider's models."""
    counts: dict[str, int] = {}
    for prices in _models(table, provider):
        counts[prices.provider] = counts.get(prices.provider, 0) + 1
    names = [prices.model for prices in _models(table, provider)] if provider else []
    if as_json:
        output.document({"table": _identity(table), "models_by_provider": counts, "models": names})
        return
    for name, value in _identity(table).items():
        output.result(f"{name:8} {value}")
    output.result("")
    output.table(("provider", "models"), [[name, str(count)] for name, count in sorted(counts.items())])
    for model in names:
        output.result(f"  {output.cell(model)}")
