"""What a call may cost before it is made, and what it did cost where the provider does not say. Guesses, called so.

Owns the bounds (bytes and output limits), the calibration from the run's own settled calls, and nothing that enters a
bill. A token is at least one byte of the request, so its bytes bound its input.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from docket.ledger.usage import Estimate, Item
from docket.pricing.cost import rate_of, sum_of
from docket.pricing.table import STANDARD, Rates
from docket.primitives.frozen import value

Part = Literal["request", "stream", "body"]
"""What bytes are counted of: a request, a streamed answer, or one that came whole."""

INPUT_KINDS = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "input_audio", "input_image", "input_video")
"""As what a byte of the request may be billed."""
OUTPUT_KINDS = ("output", "output_audio", "output_image", "output_video", "reasoning")
PRIOR_OUTPUT = 8192
"""Output tokens that a call is expected to stay below while the run has settled too few calls like it."""
PRIOR_BYTES_PER_TOKEN = 3
"""Request bytes per input token before calibration: prose has about four, code and JSON about three."""
MIN_SAMPLES = 8
"""Settled calls of a model and size class before their largest replaces the prior."""
MARGIN = (5, 4)
"""Above the largest of the calls seen, since the next one may be larger."""
MAX_REMEMBERED = 1024
"""Models, and answers, that are remembered: an agent that invents model names must not grow memory."""
STREAM_BYTES_PER_TOKEN, BODY_BYTES_PER_TOKEN = 48, 4
"""Answer bytes per output token before calibration; a stream wraps each few tokens in JSON."""
_PRIORS: Mapping[Part, int] = {
    "request": PRIOR_BYTES_PER_TOKEN,
    "stream": STREAM_BYTES_PER_TOKEN,
    "body": BODY_BYTES_PER_TOKEN,
}


@value
class Bounds:
    """At most so many tokens in and out."""

    input: int
    output: int

    @property
    def tokens(self) -> int:
        return self.input + self.output


@dataclass(frozen=True, slots=True, kw_only=True)
class Tariff:
    """What one tier of a model comes to in picodollars per token: as plain input and output, and at the dearest."""

    tier: str
    size: int
    """Input tokens above which it counts; 0 is always."""
    input: int
    output: int
    worst_input: int
    worst_output: int
    request: int
    """Picodollars per request."""
    always: bool
    """Whether any call may be served at it: the standard tier, whatever its size."""

    @classmethod
    def of(cls, name: str, rates: Rates) -> Tariff:
        """The tariff of a tier of the table, whose name may hold a context size."""
        tier, _, size = name.partition(">")
        request = rates.get("request")
        return cls(
            tier=tier,
            size=int(size or 0),
            input=_dearest(rates, INPUT_KINDS[:1]),
            output=_dearest(rates, OUTPUT_KINDS[:1]),
            worst_input=_dearest(rates, INPUT_KINDS),
            worst_output=_dearest(rates, OUTPUT_KINDS),
            request=request.unit_usd.pico if request else 0,
            always=name == STANDARD,
        )

    def expected(self, bounds: Bounds) -> int:
        """What ``bounds`` cost in picodollars as plain input and output."""
        return bounds.input * self.input + bounds.output * self.output + self.request

    def worst(self, bounds: Bounds) -> int:
        """What ``bounds`` cost in picodollars at the dearest kinds."""
        return bounds.input * self.worst_input + bounds.output * self.worst_output + self.request


def _dearest(rates: Rates, kinds: tuple[str, ...]) -> int:
    """The highest price of ``kinds`` in picodollars per token; 0 where none is sold."""
    prices = [rate_of(kind, rates) for kind in kinds]
    return max((price.unit_usd.pico // price.per for price in prices if price and price.per != 1), default=0)


@dataclass(slots=True)
class _Class:
    calls: int = 0
    usd: int = 0
    tokens: int = 0


@dataclass(slots=True)
class _Ratio:
    amount: int = 0
    tokens: int = 0


@dataclass(slots=True)
class _Model:
    classes: defaultdict[int, _Class] = field(default_factory=lambda: defaultdict(_Class))
    ratios: defaultdict[Part, _Ratio] = field(default_factory=lambda: defaultdict(_Ratio))


class Calibration:
    """What this run's own settled calls came to, by model and size class (the power of two of the body's bytes)."""

    def __init__(self) -> None:
        self._models: OrderedDict[tuple[str, str], _Model] = OrderedDict()

    def learn(
        self, provider: str, model: str, usd: int, tokens: int, parts: Iterable[tuple[Part, int, int]], *, body: int
    ) -> None:
        """Take the settled picodollars and tokens of a call with a ``body`` of so many bytes.

        ``parts`` are the bytes of its request and of its answer, with the tokens that each came to.
        """
        known = self._models.get((provider, model))
        if known is None:
            known = self._new(provider, model)
        else:
            self._models.move_to_end((provider, model))
        seen = known.classes[body.bit_length()]
        seen.calls += 1
        seen.usd, seen.tokens = max(seen.usd, usd), max(seen.tokens, tokens)
        for part, amount, of_it in parts:
            ratio = known.ratios[part]
            ratio.amount += amount
            ratio.tokens += of_it

    def expected(self, provider: str, model: str, body_bytes: int) -> tuple[int, int, bool]:
        """The largest (picodollars, tokens) of the class with its margin, and whether enough calls were seen."""
        known = self._models.get((provider, model))
        seen = known.classes.get(body_bytes.bit_length()) if known is not None else None
        if seen is None:
            return 0, 0, False
        over, under = MARGIN
        return -(-seen.usd * over // under), -(-seen.tokens * over // under), seen.calls >= MIN_SAMPLES

    def tokens_of(self, provider: str, model: str, part: Part, amount: int) -> tuple[int, bool]:
        """Tokens in ``amount`` bytes of one part, rounded up, and whether the run's own calls say so."""
        known = self._models.get((provider, model))
        seen = known.ratios.get(part) if known is not None else None
        if seen is not None and seen.amount and seen.tokens:
            return -(-amount * seen.tokens // seen.amount), True
        return -(-amount // _PRIORS[part]), False

    def _new(self, provider: str, model: str) -> _Model:
        """Room for a model; the one that was not touched for longest goes when there are too many."""
        new = self._models[provider, model] = _Model()
        if len(self._models) > MAX_REMEMBERED:
            self._models.popitem(last=False)
        return new


def estimate(input_tokens: int, output_tokens: int, rates: Rates | None, *, calibrated: bool) -> Estimate:
    """docket's guess as an itemised estimate; without rates it has no cost."""
    items = []
    for kind, quantity in (("input", input_tokens), ("output", output_tokens)):
        rate = rate_of(kind, rates) if rates is not None else None
        items.append(
            Item(
                kind=kind,
                quantity=quantity,
                unit_usd=rate.unit_usd if rate else None,
                per=rate.per if rate else None,
            )
        )
    priced = all(item.unit_usd is not None for item in items)
    return Estimate(
        items=tuple(items),
        cost_usd=sum_of(tuple(items)) if priced else None,
        method="bytes-calibrated" if calibrated else "bytes-prior",
    )
