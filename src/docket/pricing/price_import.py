"""Makes a price table from the data of ``genai-prices``: every multiplier, tier and date expanded into rows.

Owns the translation and its report: each price that was rounded and each that has no row is named. Prices become USD
per million tokens (or per request) with at most six fractional digits, rounded half-even once, here. Needs the
development package ``genai-prices``, imported only when asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from docket.pricing.table import FORMAT, PER_FEE, PER_TOKEN, STANDARD, PriceTable
from docket.primitives.canonical import Json, JsonObject, encode

DIGITS = Decimal("0.000001")
"""The format's precision of a price (evidence format section 1)."""
KINDS: Mapping[str, tuple[str, int, int]] = {
    "input_mtok": ("input", PER_TOKEN, 1),
    "output_mtok": ("output", PER_TOKEN, 1),
    "cache_read_mtok": ("cache_read", PER_TOKEN, 1),
    "cache_write_mtok": ("cache_write_5m", PER_TOKEN, 1),
    "cache_write_1h_mtok": ("cache_write_1h", PER_TOKEN, 1),
    "input_audio_mtok": ("input_audio", PER_TOKEN, 1),
    "output_audio_mtok": ("output_audio", PER_TOKEN, 1),
    "cache_audio_read_mtok": ("cache_read_audio", PER_TOKEN, 1),
    "input_image_mtok": ("input_image", PER_TOKEN, 1),
    "output_image_mtok": ("output_image", PER_TOKEN, 1),
    "cache_image_read_mtok": ("cache_read_image", PER_TOKEN, 1),
    "input_video_mtok": ("input_video", PER_TOKEN, 1),
    "output_video_mtok": ("output_video", PER_TOKEN, 1),
    "output_reasoning_mtok": ("reasoning", PER_TOKEN, 1),
    "web_searches_kcount": ("web_search", PER_FEE, 1000),
    "storage_searches_kcount": ("file_search", PER_FEE, 1000),
    "requests_kcount": ("request", PER_FEE, 1000),
}
"""The source's price keys: our kind, what its price is per, and by how much theirs is divided."""
TIERS: Mapping[tuple[tuple[str, str], ...], str] = {
    (("processing", "batch"),): "batch",
    (("service_tier", "flex"),): "flex",
    (("service_tier", "priority"),): "priority",
    (("service_tier", "fast"),): "fast",
    (("speed", "fast"),): "fast",
}
"""The source's variants that an answer names as its tier."""
OUTPUT_LIMITS: Mapping[tuple[str, str], int] = {
    ("openai", "gpt-3.5-turbo"): 4096,
    ("openai", "gpt-4-turbo"): 4096,
    ("openai", "gpt-4o"): 16_384,
    ("openai", "gpt-4o-mini"): 16_384,
    ("openai", "gpt-4.1"): 32_768,
    ("openai", "gpt-4.1-mini"): 32_768,
    ("openai", "gpt-4.1-nano"): 32_768,
    ("openai", "gpt-5"): 128_000,
    ("openai", "gpt-5-mini"): 128_000,
    ("openai", "gpt-5-nano"): 128_000,
    ("openai", "o1"): 100_000,
    ("openai", "o3"): 100_000,
    ("openai", "o3-mini"): 100_000,
    ("openai", "o4-mini"): 100_000,
    ("google", "gemini-2.0-flash"): 8192,
    ("google", "gemini-2.5-pro"): 65_536,
    ("google", "gemini-2.5-flash"): 65_536,
    ("google", "gemini-2.5-flash-lite"): 65_536,
}
"""Output limits in tokens, which the source has not, from the providers' model pages; requests may set none there."""
STANDARD_VARIANT = (("service_tier", "default"),)


@dataclass(slots=True)
class Import:
    """A table and what became different on the way; ``rounded`` and ``left_out`` are lines for people."""

    document: bytes = b""
    models: int = 0
    rows: int = 0
    digest: str = ""
    rounded: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def table_of(providers: list[Any], *, version: str, day: str) -> Import:
    """The table of ``genai_prices.data.providers``; ``day`` is when it was made."""
    done = Import()
    models: list[Json] = [
        entry for provider in providers for model in provider.models if (entry := _model(provider, model, done))
    ]
    table: JsonObject = {
        "format": FORMAT,
        "source": "genai-prices",
        "version": version,
        "date": day,
        "models": sorted(models, key=lambda entry: (entry["provider"], entry["model"])),  # type: ignore[index,call-overload]
    }
    read = PriceTable.parse(_lines(table), at=day)
    done.models, done.rows, done.digest = len(models), len(read.rows()), read.digest()
    done.document = _lines({**table, "digest": done.digest})
    return done


def _lines(table: JsonObject) -> bytes:
    """The table as JSON with one model a line, so that a change of it is a change of a line."""
    models = table["models"]
    assert isinstance(models, list)
    head = encode({name: value for name, value in table.items() if name != "models"})
    return head[:-1] + b',"models":[\n' + b",\n".join(map(encode, models)) + b"\n]}\n"


def _model(provider: Any, model: Any, done: Import) -> JsonObject | None:
    where = f"{provider.id}/{model.id}"
    periods: list[Json] = []
    before: Json = None
    for start in _starts(model):
        rows = sorted(_rows(model, start, where, done), key=lambda row: (row[0], row[1]))
        listed: list[Json] = [[tier, kind, _text(price), per] for tier, kind, price, per in rows]
        if listed and listed != before:
            periods.append({"from": start.isoformat(), "rows": listed} if start else {"rows": listed})
            before = listed
    if not periods:
        done.left_out.append(f"{where}: no price of a kind that is known")
        return None
    entry: JsonObject = {"provider": provider.id, "model": model.id, "periods": periods}
    names = sorted(set(_names(model.match, where, done)) - {model.id.lower()})
    if names:
        entry["names"] = list[Json](names)
    limit = OUTPUT_LIMITS.get((provider.id, model.id))
    if limit:
        entry["max_output"] = limit
    return entry


def _names(match: Any, where: str, done: Import) -> Iterator[str]:
    """The names that a match clause lists. A prefix stands for the name itself; looser clauses give no name."""
    kind = type(match).__name__
    if kind == "ClauseEquals":
        yield match.equals.lower()
    elif kind == "ClauseStartsWith":
        yield match.starts_with.lower()
    elif kind == "ClauseOr":
        for clause in match.or_:
            yield from _names(clause, where, done)
    else:
        done.left_out.append(f"{where}: names by {kind} are not taken over")


def _starts(model: Any) -> list[date | None]:
    """The days on which any price of a model changes."""
    constraints = [price.constraint for price in model.prices] if isinstance(model.prices, list) else []
    constraints += [variant.constraint for variant in model.price_variants or ()]
    return [None, *sorted({c.start_date for c in constraints if type(c).__name__ == "StartDateConstraint"})]


def _rows(model: Any, start: date | None, where: str, done: Import) -> Iterator[tuple[str, str, Decimal, int]]:
    """The rows in force from ``start`` on. Of the variants of a tier the first that names a price counts."""
    standard = dict(_base(model, start, where, done))
    changes: dict[str, dict[str, Any]] = {STANDARD: {}}
    for variant in model.price_variants or ():
        if not _active(variant.constraint, start):
            continue
        when = tuple(sorted(variant.when.items()))
        if when == STANDARD_VARIANT:
            continue
        name = TIERS.get(when)
        if name is None:
            done.left_out.append(f"{where}: variant {dict(when)}")
            continue
        first = changes.setdefault(name, {})
        first.update((key, price) for key, price in _stored(variant.prices) if key not in first)
    for name, changed in changes.items():
        yield from _expanded(name, standard | changed, where, done)


def _expanded(tier: str, prices: dict[str, Any], where: str, done: Import) -> Iterator[tuple[str, str, Decimal, int]]:
    """The rows of one tier, and of each context size at which a price of it changes."""
    sizes = sorted({step.start for price in prices.values() for step in getattr(price, "tiers", ())})
    for size in (None, *sizes):
        name = tier if size is None else f"{tier}>{size}"
        for key, price in prices.items():
            if key not in KINDS:
                done.left_out.append(f"{where}: {key} ({tier})")
                continue
            kind, per, divided = KINDS[key]
            exact = _at_size(price, size) / divided
            rounded = exact.quantize(DIGITS, rounding=ROUND_HALF_EVEN) if exact != exact.quantize(DIGITS) else exact
            if rounded != exact:
                done.rounded.append(f"{where}: {name} {kind} {_text(exact)} -> {_text(rounded)}")
            yield name, kind, rounded, per


def _at_size(price: Any, size: int | None) -> Decimal:
    if isinstance(price, Decimal):
        return price
    value: Decimal = price.base
    for step in price.tiers:
        if size is not None and step.start <= size:
            value = step.price
    return value


def _base(model: Any, start: date | None, where: str, done: Import) -> Iterator[tuple[str, Any]]:
    """The standard prices from ``start`` on. Of prices that depend on the time of day only the dearest are taken."""
    if not isinstance(model.prices, list):
        return _stored(model.prices)
    chosen = model.prices[0].prices
    for conditional in model.prices:
        if type(conditional.constraint).__name__ == "TimeOfDateConstraint":
            if _dearer(conditional.prices, chosen):
                chosen = conditional.prices
            done.left_out.append(f"{where}: a price by the time of day; the dearer one counts all day")
        elif _active(conditional.constraint, start):
            chosen = conditional.prices
    return _stored(chosen)


def _dearer(one: Any, other: Any) -> bool:
    mine, theirs = dict(_stored(one)), dict(_stored(other))
    return sum(_at_size(p, None) for p in mine.values()) > sum(_at_size(p, None) for p in theirs.values())


def _active(constraint: Any, start: date | None) -> bool:
    if constraint is None:
        return True
    return start is not None and type(constraint).__name__ == "StartDateConstraint" and constraint.start_date <= start


def _stored(prices: Any) -> Iterator[tuple[str, Any]]:
    return ((key, value) for key, value in vars(prices).items() if value is not None and not key.startswith("_"))


def _text(price: Decimal) -> str:
    text = f"{price:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
