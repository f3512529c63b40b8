"""The usage object of OpenAI and of everything that speaks like it, made into kinds that do not overlap.

Cached tokens are part of the prompt's total and reasoning tokens part of the completion's (OpenAI API reference,
``usage``). Servers that speak OpenAI's protocol deviate; where their own total says so, their reading is taken.
"""

from __future__ import annotations

from docket.ledger.usage import Counts, Quantities
from docket.primitives.frozen import value
from docket.primitives.money import PICO, Usd
from docket.providers.answer import NOTHING
from docket.providers.json_fields import Document, Malformed, counter, member
from docket.providers.usage_members import (
    MAX_NAMED,
    MAX_STATED,
    Schema,
    leaves,
    rising,
    says_nothing,
    split_input,
    split_output,
    stated,
    unread,
)

_PARTS = "text_tokens audio_tokens image_tokens video_tokens"
_INSIDE = leaves(
    f"{_PARTS} cached_tokens cache_write_tokens cache_creation_tokens", cached_tokens_details=leaves(_PARTS)
)
_OUTSIDE = leaves(f"{_PARTS} reasoning_tokens accepted_prediction_tokens rejected_prediction_tokens")
_TIMES = "queue_time prompt_time completion_time total_time"
"""What some servers measure and nobody bills."""
SCHEMA = leaves(
    "prompt_tokens completion_tokens input_tokens output_tokens total_tokens cached_tokens reasoning_tokens"
    " prompt_cache_hit_tokens prompt_cache_miss_tokens cache_read_input_tokens cache_creation_input_tokens"
    f" is_byok cost_in_usd_ticks {_TIMES}",
    prompt_tokens_details=_INSIDE,
    input_tokens_details=_INSIDE,
    completion_tokens_details=_OUTSIDE,
    output_tokens_details=_OUTSIDE,
    cost_details=leaves(
        "upstream_inference_cost upstream_inference_prompt_cost upstream_inference_completions_cost"
        " upstream_inference_input_cost upstream_inference_output_cost"
    ),
)
_FINER = frozenset(
    leaves(
        "prompt_tokens_details input_tokens_details completion_tokens_details output_tokens_details cached_tokens"
        " prompt_cache_hit_tokens cache_read_input_tokens cache_creation_input_tokens reasoning_tokens"
    )
)
"""Members that say more than the totals."""
_WITH_COST: Schema = {**SCHEMA, "cost": None}
TICKS = 10_000_000_000
"""Ticks of a US dollar in xAI's ``cost_in_usd_ticks`` (xAI documentation, "Cost Tracking")."""
MODALITIES = {kind: f"{kind}_tokens" for kind in ("audio", "image", "video")}


@value
class Figures:
    """A usage object that was read: ``items`` None is unknown; the rest as in ``Counts``."""

    items: Quantities | None
    inconsistent: bool = False
    reasoning: int | None = None
    unread: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    stated_usd: Usd | None = None


class RunningUsage:
    """The usage of one answer, whose totals never fall: a gateway may fill its last event with zeros."""

    def __init__(self) -> None:
        self._usage: Document = {}
        self._fell = False
        self.figures: Figures | None = None
        self.content = False
        """Whether the answer held any content, so that figures of nothing cannot be right."""

    def take(self, usage: Document) -> None:
        """Take the next usage object; an empty one says nothing."""
        if usage:
            self._usage, fell = rising(self._usage, usage)
            self._fell = self._fell or fell
            self.figures = read_usage(self._usage)

    def counts(self, *, final: bool) -> Counts:
        """What was said: the final word, or the last one before the answer broke off."""
        figures = self.figures
        if figures is None:
            return NOTHING
        if figures.items is None:
            return Counts(source="none", inconsistent=figures.inconsistent, unread=figures.unread)
        silent = self.content and says_nothing(figures.items)
        return Counts(
            "reported" if final and not (self._fell or silent or figures.unread) else "partial",
            figures.items,
            figures.inconsistent or self._fell,
            figures.unread,
            figures.assumed,
            figures.stated_usd,
        )

    @property
    def reasoning(self) -> int | None:
        """The part of the output that is called reasoning."""
        return self.figures.reasoning if self.figures is not None else None


def read_usage(usage: Document) -> Figures:
    """The figures of a ``usage`` object of Chat Completions, Completions, Embeddings or Responses."""
    unknown = unread(usage, SCHEMA if isinstance(usage.get("cost"), dict) else _WITH_COST)
    try:
        return _read(usage, unknown)
    except Malformed:
        return Figures(items=None, inconsistent=True, unread=unknown)


def _read(usage: Document, unknown: tuple[str, ...]) -> Figures:
    prompt = counter(usage, "prompt_tokens", "input_tokens")
    completion = counter(usage, "completion_tokens", "output_tokens")
    total = counter(usage, "total_tokens")
    if _FINER.isdisjoint(usage):  # totals and nothing else
        inside: Document = {}
        outside: Document = {}
        cached = written = reasoning = None
    else:
        inside = member(usage, "prompt_tokens_details") or member(usage, "input_tokens_details")
        outside = member(usage, "completion_tokens_details") or member(usage, "output_tokens_details")
        cached, written, reasoning = _finer(usage, inside, outside)
    if prompt is None and total is not None:
        prompt = max(0, total - (completion or 0))
    if prompt is None:
        return Figures(items=None, inconsistent=completion is not None, unread=unknown)
    billed_in, billed_out, contradicts = _meant(prompt, completion, total, (cached or 0) + (written or 0), reasoning)
    if contradicts and total is not None and total > billed_in + (billed_out or 0):
        unknown = (*unknown[: MAX_NAMED - 1], "total_tokens")  # it holds tokens that no part tells of
    details = inside.get("cached_tokens_details")
    hits = _modal(details) if isinstance(details, dict) else None
    into = split_input(billed_in, cached or 0, written or 0, _modal(inside) if inside else {}, hits)
    items, over = into.items, into.over
    if billed_out is not None:
        out = split_output(billed_out, _modal(outside) if outside else {})
        items, over = items + out.items, over or out.over
    assumed = ("cached_tokens_details",) if into.assumed else ()
    stated_usd = _stated(usage) if "cost" in usage or "cost_in_usd_ticks" in usage else None
    return Figures(items, contradicts or over, reasoning, unknown, assumed, stated_usd)


def _finer(usage: Document, inside: Document, outside: Document) -> tuple[int | None, int | None, int | None]:
    """Tokens read from a cache, written to one, and called reasoning. Raises Malformed."""
    cached = counter(inside, "cached_tokens")
    if cached is None:
        cached = counter(usage, "cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens")
    written = counter(inside, "cache_write_tokens", "cache_creation_tokens")
    if written is None:
        written = counter(usage, "cache_creation_input_tokens")
    reasoning = counter(outside, "reasoning_tokens")
    if reasoning is None:
        reasoning = counter(usage, "reasoning_tokens")
    return cached, written, reasoning


def _stated(usage: Document) -> Usd | None:
    """What a router says the call cost; with the customer's own key that is its fee and the provider's bill."""
    cost = stated(usage.get("cost"))
    if cost is not None and usage.get("is_byok") is True:
        upstream = stated(member(usage, "cost_details").get("upstream_inference_cost"))
        return None if upstream is None else cost + upstream
    if cost is None:
        ticks = usage.get("cost_in_usd_ticks")
        return Usd(ticks * PICO // TICKS) if type(ticks) is int and 0 <= ticks < MAX_STATED * TICKS else None
    return cost


def _meant(
    prompt: int, completion: int | None, total: int | None, cache: int, reasoning: int | None
) -> tuple[int, int | None, bool]:
    """Input and output as billed, and whether no reading gives the provider's own total.

    Readings in order: OpenAI's; cache outside the prompt (Anthropic's habit); reasoning outside the completion (xAI).
    """
    if total is None:
        return prompt, completion, False
    output = completion if completion is not None else max(0, total - prompt)
    if prompt + output == total or completion is None:
        return prompt, output if completion is not None or output else None, prompt + output != total
    thought = reasoning or 0
    for extra_in, extra_out in ((cache, 0), (0, thought), (cache, thought)):
        if prompt + extra_in + output + extra_out == total:
            return prompt + extra_in, output + extra_out, False
    return prompt, output, True


def _modal(details: Document) -> dict[str, int]:
    """The tokens of ``details`` that are no text, by modality."""
    found: dict[str, int] = {}
    for kind, name in MODALITIES.items():
        if name in details:
            quantity = counter(details, name)
            if quantity:
                found[kind] = quantity
    return found
