"""The price table: rows of (provider, model, tier, kind) with validity dates, and the rules by which names resolve.

A table is a document ``docket-prices/1`` (docs/prices.md). Invariant: a name resolves to a row by a stated rule or to
none; it never falls through to something cheaper. Prices are exact decimals with at most six fractional digits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import orjson

from docket.errors import FormatError
from docket.primitives.canonical import Json, JsonObject, encode
from docket.primitives.digest import sha256_hex
from docket.primitives.money import Usd

FORMAT = "docket-prices/1"
PER_TOKEN = 1_000_000
"""Token prices are per million."""
PER_FEE = 1
"""Fees are per request."""
MAX_TABLE_BYTES = 32 * 1024 * 1024
"""Largest table read: some twenty times the shipped one."""
STANDARD = "standard"
MAX_FOUND = 1024
"""Names whose resolution is remembered: an agent that invents names must not grow memory."""

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_DATED_NAME = re.compile(r"-(20\d{2})-?(0[1-9]|1[0-2])-?(0[1-9]|[12]\d|3[01])$")
_PRICE = re.compile(r"(0|[1-9][0-9]{0,8})(\.[0-9]{0,5}[1-9])?")


@dataclass(frozen=True, slots=True)
class Price:
    """USD per ``per`` units."""

    unit_usd: Usd
    per: int


Rates = Mapping[str, Price]
"""Prices by kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """The prices of a model from ``start`` (a UTC date, inclusive; None is always) until the next period."""

    start: str | None
    tiers: Mapping[str, Rates]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPrices:
    """One model of one provider; ``names`` are the other names under which it is sold."""

    provider: str
    model: str
    names: tuple[str, ...] = ()
    max_output: int | None = None
    """The model's own output limit in tokens, for requests that set none."""
    periods: tuple[Period, ...] = ()

    def on(self, date: str) -> Mapping[str, Rates]:
        """The tiers in force on ``date`` (ISO 8601); before the first period, those of the first."""
        past = [period for period in self.periods if period.start is None or period.start <= date]
        return (past or self.periods)[-1 if past else 0].tiers


@dataclass(frozen=True, slots=True)
class Found:
    """A model that a name resolved to, and the rule: ``exact``, ``prefix``, ``version`` or ``date``."""

    prices: ModelPrices
    rule: str
    tiers: Mapping[str, Rates]
    """Those in force on the table's day."""
    sized: bool
    """Whether some of them count above a context size only."""


@dataclass(slots=True)
class PriceTable:
    """All rows, as in force on one date. Entries are read when first asked for."""

    source: str
    version: str
    date: str
    """The day the table was made."""
    at: str
    """The day whose prices count (UTC, ISO 8601)."""
    _raw: Mapping[tuple[str, str], JsonObject]
    _names: Mapping[tuple[str, str], str]
    _digest: str | None = None
    _read: dict[tuple[str, str], ModelPrices] = field(default_factory=dict)
    _dearest: dict[str, Rates] = field(default_factory=dict)
    _undated: dict[tuple[str, str], set[str]] | None = None
    _found: dict[tuple[str, str], Found | None] = field(default_factory=dict)

    @classmethod
    def parse(cls, document: bytes, *, at: str, trusted: bool = False) -> PriceTable:
        """The table in ``document``. ``trusted`` leaves its entries unread and its stated digest unchecked.

        Raises FormatError naming the place for anything that is no table.
        """
        if len(document) > MAX_TABLE_BYTES:
            raise FormatError(f"larger than {MAX_TABLE_BYTES} bytes", where="price table")
        try:
            value = orjson.loads(document)
        except orjson.JSONDecodeError as error:
            raise FormatError(f"not JSON: {error.msg}", where=f"price table, line {error.lineno}") from error
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            raise FormatError(f"format is not {FORMAT}", where="price table")
        raw = {(_text(e, "provider"), _text(e, "model").lower()): e for e in _objects(value, "models")}
        names = {(provider, model): model for provider, model in raw}
        for (provider, model), entry in raw.items():
            for name in _list(entry, "names"):
                names.setdefault((provider, str(name).lower()), model)
        stated = value.get("digest")
        table = cls(
            source=_text(value, "source"),
            version=_text(value, "version"),
            date=_text(value, "date"),
            at=at,
            _raw=raw,
            _names=names,
            _digest=stated if trusted and isinstance(stated, str) else None,
        )
        if not trusted:
            for key in raw:
                table._entry(key)
        return table

    def resolve(self, provider: str, model: str) -> Found | None:
        """The model that ``model`` names at ``provider``, by the first rule that applies.

        ``exact``: it is listed. ``prefix``: what stands before the last ``/`` is dropped. ``version``: ``@latest``,
        ``@default``, ``@2026-01-01`` or ``-latest`` is dropped. ``date``: the date at the end is dropped; if other
        dated versions of that model are listed too, the dearest of them counts.
        """
        key = (provider, model.lower())
        try:
            return self._found[key]
        except KeyError:
            if len(self._found) >= MAX_FOUND:
                self._found.clear()
            found = self._found[key] = self._resolve(*key)
            return found

    def _resolve(self, provider: str, name: str) -> Found | None:
        for rule, candidate in _spellings(name):
            key = self._names.get((provider, candidate))
            if key is not None:
                return self._as_found(self._entry((provider, key)), rule)
        for _, candidate in _spellings(name):
            undated = _DATED_NAME.sub("", candidate)
            if undated != candidate:
                family = self._dated(provider, undated)
                if family:
                    return self._as_found(max(family, key=self._weight), "date")
        return None

    def _as_found(self, prices: ModelPrices, rule: str) -> Found:
        tiers = self.tiers(prices)
        return Found(prices, rule, tiers, sized=any(">" in name for name in tiers))

    def tiers(self, prices: ModelPrices) -> Mapping[str, Rates]:
        """The tiers of a model in force on the table's day."""
        return prices.on(self.at)

    def dearest(self, provider: str) -> Rates:
        """The highest standard price that any model of ``provider`` has, by kind; empty for an unknown provider."""
        if provider not in self._dearest:
            rates: dict[str, Price] = {}
            for key in self._raw:
                if key[0] == provider:
                    for tier, offered in self.tiers(self._entry(key)).items():
                        if tier.partition(">")[0] == STANDARD:
                            for kind, price in offered.items():
                                if kind not in rates or rates[kind].unit_usd < price.unit_usd:
                                    rates[kind] = price
            self._dearest[provider] = rates
        return self._dearest[provider]

    def models(self) -> Iterator[ModelPrices]:
        """Every model, by provider and name."""
        for key in sorted(self._raw):
            yield self._entry(key)

    def names(self) -> frozenset[str]:
        """Return every name under which the table lists a model, of any provider, as it is spelled there."""
        return frozenset(
            str(name) for entry in self._raw.values() for name in (_text(entry, "model"), *_list(entry, "names"))
        )

    def rows(self) -> list[Json]:
        """Every row, sorted by provider, model, tier, kind and first day: what the digest covers."""
        rows: list[tuple[tuple[str, ...], JsonObject]] = []
        for prices in self.models():
            for period in prices.periods:
                for tier, rates in period.tiers.items():
                    for kind, price in rates.items():
                        row: JsonObject = {
                            "provider": prices.provider,
                            "model": prices.model,
                            "tier": tier,
                            "kind": kind,
                            "unit_usd": str(price.unit_usd),
                            "per": price.per,
                        }
                        if period.start is not None:
                            row["from"] = period.start
                        rows.append(((prices.provider, prices.model, tier, kind, period.start or ""), row))
        return [row for _, row in sorted(rows, key=lambda pair: pair[0])]

    def digest(self) -> str:
        """SHA-256 of the canonical list of all rows, 64 hex characters."""
        if self._digest is None:
            # One row is encoded at a time: a whole table is no document of the format and may hold any name.
            self._digest = sha256_hex(b"[" + b",".join(encode(row) for row in self.rows()) + b"]")
        return self._digest

    def _entry(self, key: tuple[str, str]) -> ModelPrices:
        if key not in self._read:
            self._read[key] = _model(self._raw[key])
        return self._read[key]

    def _dated(self, provider: str, undated: str) -> list[ModelPrices]:
        """The model ``undated`` itself and every listed dated version of it."""
        if self._undated is None:
            self._undated = {}
            for (owner, name), model in self._names.items():
                self._undated.setdefault((owner, _DATED_NAME.sub("", name)), set()).add(model)
        return [self._entry((provider, key)) for key in sorted(self._undated.get((provider, undated), ()))]

    def _weight(self, prices: ModelPrices) -> tuple[int, int]:
        rates = self.tiers(prices).get(STANDARD, {})
        output, plain = rates.get("output"), rates.get("input")
        return (output.unit_usd.pico if output else 0, plain.unit_usd.pico if plain else 0)


def _spellings(name: str) -> Iterator[tuple[str, str]]:
    """``name`` and what it may also mean, in order, with the rule."""
    short = name.rpartition("/")[2]
    for rule, candidate in (("exact", name), ("prefix", short)):
        yield rule, candidate
        base, at, suffix = candidate.partition("@")
        if at and suffix in ("latest", "default"):
            yield "version", base
        elif at:
            candidate = f"{base}-{suffix}"
            yield "version", candidate
        elif candidate.endswith("-latest"):
            yield "version", candidate.removesuffix("-latest")
        compact = _DATED_NAME.search(candidate)
        if compact:
            year, month, day = compact.groups()
            yield "version", candidate[: compact.start()] + f"-{year}{month}{day}"
            yield "version", candidate[: compact.start()] + f"-{year}-{month}-{day}"


def _model(entry: JsonObject) -> ModelPrices:
    provider, model = _text(entry, "provider"), _text(entry, "model")
    where = f"price table, {provider}/{model}"
    max_output = entry.get("max_output")
    if max_output is not None and (type(max_output) is not int or max_output < 1):
        raise FormatError("max_output is not a positive integer", where=where)
    periods = tuple(_period(period, where) for period in _objects(entry, "periods"))
    if not periods:
        raise FormatError("no periods", where=where)
    starts = [period.start or "" for period in periods]
    if sorted(set(starts)) != starts:
        raise FormatError("periods do not start one after the other", where=where)
    names = tuple(str(name) for name in _list(entry, "names"))
    return ModelPrices(provider=provider, model=model, names=names, max_output=max_output, periods=periods)


def _period(period: JsonObject, where: str) -> Period:
    start = period.get("from")
    if start is not None and not (isinstance(start, str) and _DATE.fullmatch(start)):
        raise FormatError("from is not a date like 2026-01-31", where=where)
    tiers: dict[str, dict[str, Price]] = {}
    for row in _list(period, "rows"):
        match row:
            case [str(tier), str(kind), str(price), int(per)] if per in (PER_TOKEN, PER_FEE):
                if not _PRICE.fullmatch(price):
                    raise FormatError(f"{price!r} is no price with at most 6 fractional digits", where=where)
                tiers.setdefault(tier, {})[kind] = Price(Usd.parse(price), per)
            case _:
                raise FormatError(f"row is not [tier, kind, price, per]: {row!r}", where=where)
    return Period(start=start, tiers=tiers)


def _text(document: JsonObject, name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str) or not value:
        raise FormatError(f"{name} is not a text", where="price table")
    return value


def _list(document: JsonObject, name: str) -> list[Json]:
    value = document.get(name, [])
    if not isinstance(value, list):
        raise FormatError(f"{name} is not a list", where="price table")
    return value


def _objects(document: JsonObject, name: str) -> list[JsonObject]:
    values = _list(document, name)
    objects = [value for value in values if isinstance(value, dict)]
    if len(objects) != len(values):
        raise FormatError(f"{name} holds something that is not an object", where="price table")
    return objects
