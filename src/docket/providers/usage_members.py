"""The members of a provider's usage object: which are unknown, how totals grow, how breakdowns overlap.

Invariants: a member that is unknown and not zero is named, never dropped; a total that was seen never falls; a part
that stands in two breakdowns is taken off once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import ROUND_HALF_EVEN, Decimal

from docket.ledger.usage import Quantities
from docket.primitives.frozen import value
from docket.primitives.money import PICO, Usd
from docket.providers.json_fields import Document

MAX_NAMED = 16
"""Members that a bill names (evidence format U-6)."""
MAX_NAME = 64
MAX_STATED = 10**9
"""US dollars above which a stated cost is not believed to be one."""

USAGE = frozenset({"usage", "usageMetadata"})
"""Members under which providers give figures."""

Schema = Mapping[str, "Schema | None"]
"""Known members: None is read, or known to cost nothing; a schema stands for the object, or list of objects, there."""


_UNKNOWN: Schema = {}


def leaves(names: str, **nested: Schema) -> Schema:
    """The schema of the members in ``names``, a list in words, and of ``nested`` ones."""
    return {**dict.fromkeys(names.split()), **nested}


def unread(usage: Document, schema: Schema, at: str = "") -> tuple[str, ...]:
    """The paths, from ``at`` on, of members of ``usage`` that ``schema`` does not know and that are not zero."""
    for name, figure in usage.items():
        if figure and schema.get(name, _UNKNOWN) is not None:
            break
    else:
        return ()
    found: dict[str, None] = {}
    _walk(usage, schema, at, found)
    return tuple(found)[:MAX_NAMED]


def _walk(value: object, schema: Schema, at: str, found: dict[str, None]) -> None:
    if isinstance(value, list):
        for each in value:
            _walk(each, schema, at, found)
    elif isinstance(value, dict):
        for name, member in value.items():
            known = schema.get(name, _UNKNOWN)
            if known is not None and member:
                _walk(member, known, f"{at}.{name}" if at else name, found)
    elif value:
        name = at if at.isascii() and at.isprintable() and at else "unfit"
        found[name[:MAX_NAME]] = None


def rising(earlier: Document, later: Document) -> tuple[dict[str, object], bool]:
    """The larger of each figure of two usage objects, and whether one had fallen; a null says nothing."""
    merged, fell = dict(earlier), False
    for name, figure in later.items():
        known = merged.get(name)
        if figure is None:
            continue
        if isinstance(figure, dict) and isinstance(known, dict):
            merged[name], inner = rising(known, figure)
            fell = fell or inner
        elif known is not None and _amount(figure) < _amount(known):
            fell = True
        else:
            merged[name] = figure
    return merged, fell


def with_the_larger(answer: bytes) -> dict[str, object] | None:
    """The answer with the larger of each figure where a usage object stands twice in one place; None where none does.

    Readers of JSON take the first or the last of two members with one name.
    """
    found = False

    def joined(pairs: list[tuple[str, object]]) -> dict[str, object]:
        nonlocal found
        whole: dict[str, object] = {}
        for name, figure in pairs:
            known = whole.get(name)
            if name in USAGE and isinstance(known, dict) and isinstance(figure, dict):
                whole[name], found = rising(known, figure)[0], True
            else:
                whole[name] = figure
        return whole

    try:
        document = json.loads(answer, object_pairs_hook=joined)
    except (ValueError, RecursionError):
        return None
    return document if found else None


def _amount(figure: object) -> float:
    """The numbers in a figure, added up."""
    if isinstance(figure, bool):
        return 0
    if isinstance(figure, int | float):
        return figure
    if isinstance(figure, dict):
        return sum(map(_amount, figure.values()))
    return sum(map(_amount, figure)) if isinstance(figure, list) else 0


@value
class Split:
    """A total divided into kinds; ``over``: parts exceed their whole; ``assumed``: how parts overlap is not said."""

    items: Quantities
    over: bool
    assumed: bool


def split_input(
    total: int, read: int, written: int, modal: Mapping[str, int], cached: Mapping[str, int] | None
) -> Split:
    """``total`` tokens of which ``read`` came from a cache and ``written`` went to one, and ``modal`` are no text.

    ``cached`` is how many of each modality came from the cache. Where it is None the overlap is the least that is
    possible, which is the dearest: tokens that are no text cost more, and a cache makes them cheaper.
    """
    over = read + written > total or sum(modal.values()) > total
    read = min(read, total)
    written = min(written, total - read)
    if not modal and not cached:  # as nearly every answer
        if not (read or written):
            return Split((("input", total),), over, False)
        whole = (("input", total - read - written), ("cache_read", read), ("cache_write_5m", written))
        return Split(tuple([item for item in whole if item[1] or item[0] == "input"]), over, False)
    parts: dict[str, int] = {}
    rest = total
    for kind, quantity in modal.items():
        parts[kind] = min(quantity, rest)
        rest -= parts[kind]
    text, marked = rest, sum(parts.values())
    least, most = max(0, read + written - text), min(read + written, marked)
    assumed = cached is None and (most > least or (least > 0 and least < marked and len(parts) > 1))
    if cached is None:
        cached, left = {}, min(least, read)
        for kind in sorted(parts, key=lambda kind: kind == "audio"):
            cached[kind] = min(parts[kind], left)
            left -= cached[kind]
    over = over or any(quantity > parts.get(kind, 0) for kind, quantity in cached.items())
    over = over or sum(cached.values()) > read
    hits: dict[str, int] = {}
    left = read
    for kind, quantity in parts.items():
        hits[kind] = min(cached.get(kind, 0), quantity, left)
        left -= hits[kind]
    fresh = total - read - written
    items: list[tuple[str, int]] = []
    for kind, quantity in parts.items():
        own = min(quantity - hits[kind], fresh)
        fresh -= own
        items += [(f"input_{kind}", own), (f"cache_read_{kind}", hits[kind])]
    items = [("cache_read", left), ("cache_write_5m", written), *items]
    return Split((("input", fresh), *(item for item in items if item[1])), over, assumed)


def split_output(total: int, modal: Mapping[str, int]) -> Split:
    """``total`` tokens of which ``modal`` are no text."""
    if not modal:
        return Split((("output", total),), False, False)
    items: list[tuple[str, int]] = []
    rest = total
    for kind, quantity in modal.items():
        if min(quantity, rest):
            items.append((f"output_{kind}", min(quantity, rest)))
            rest -= items[-1][1]
    return Split((("output", rest), *items), sum(modal.values()) > total, False)


def stated(amount: object) -> Usd | None:
    """An amount of US dollars as JSON numbers spell it; None for anything that is none. Rounded to picodollars."""
    if isinstance(amount, bool) or not isinstance(amount, int | float) or not 0 <= amount < MAX_STATED:
        return None
    pico = (Decimal(repr(amount)) * PICO).quantize(Decimal(1), rounding=ROUND_HALF_EVEN)
    return Usd(int(pico))


def says_nothing(items: Quantities) -> bool:
    """Whether figures count no input, or no output though they speak of it: with content they cannot be right."""
    into = out = 0
    speaks_in = speaks_out = False
    for kind, quantity in items:
        if kind.startswith("output"):
            speaks_out, out = True, out + quantity
        elif kind.startswith(("input", "cache_")):
            speaks_in, into = True, into + quantity
    return (speaks_in and not into) or (speaks_out and not out)
