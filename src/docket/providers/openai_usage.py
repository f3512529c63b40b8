"""The usage object of OpenAI and of everything that speaks like it, made into kinds that do not overlap.

Cached tokens are part of the prompt's total and reasoning tokens part of the completion's (OpenAI API reference,
``usage``). Servers that speak OpenAI's protocol deviate; where their own total says so, their reading is taken.
"""

from __future__ import annotations

from docket.ledger.usage import Counts
from docket.primitives.frozen import value
from docket.providers.answer import NOTHING
from docket.providers.json_fields import Document, Malformed, counter, member

Items = tuple[tuple[str, int], ...]


@value
class Figures:
    """A usage object that was read: ``items`` None is unknown."""

    items: Items | None
    inconsistent: bool = False
    reasoning: int | None = None


def read_usage(usage: Document) -> Figures:
    """The figures of a ``usage`` object of Chat Completions, Completions, Embeddings or Responses."""
    try:
        return _read(usage)
    except Malformed:
        return Figures(items=None, inconsistent=True)


def counts(figures: Figures | None, *, final: bool) -> Counts:
    """``figures`` as what the provider said: its final word, or the last one before the answer broke off."""
    if figures is None:
        return NOTHING
    if figures.items is None:
        return Counts(source="none", inconsistent=figures.inconsistent)
    return Counts("reported" if final else "partial", figures.items, figures.inconsistent)


def _read(usage: Document) -> Figures:
    prompt = counter(usage, "prompt_tokens", "input_tokens")
    completion = counter(usage, "completion_tokens", "output_tokens")
    total = counter(usage, "total_tokens")
    inside = member(usage, "prompt_tokens_details") or member(usage, "input_tokens_details")
    outside = member(usage, "completion_tokens_details") or member(usage, "output_tokens_details")
    cached = counter(inside, "cached_tokens") if inside else None
    if cached is None:
        cached = counter(usage, "cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens")
    written = counter(inside, "cache_write_tokens", "cache_creation_tokens") if inside else None
    if written is None:
        written = counter(usage, "cache_creation_input_tokens")
    reasoning = counter(outside, "reasoning_tokens") if outside else None
    if reasoning is None:
        reasoning = counter(usage, "reasoning_tokens")
    if prompt is None and total is not None:
        prompt = max(0, total - (completion or 0))
    if prompt is None:
        return Figures(items=None, inconsistent=completion is not None)
    billed_in, billed_out, contradicts = _meant(prompt, completion, total, (cached or 0) + (written or 0), reasoning)
    parts_in = [("cache_read", cached), ("cache_write_5m", written), *_modal("input", inside)]
    items_in, over_in = _split("input", billed_in, parts_in)
    parts_out = _modal("output", outside)
    items_out, over_out = _split("output", billed_out, parts_out) if billed_out is not None else ((), False)
    return Figures(items_in + items_out, contradicts or over_in or over_out, reasoning)


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


def _modal(kind: str, details: Document) -> list[tuple[str, int | None]]:
    """The parts of ``details`` that are no text."""
    return [(f"{kind}_{part}", counter(details, f"{part}_tokens")) for part in ("audio", "image")] if details else []


def _split(kind: str, total: int, parts: list[tuple[str, int | None]]) -> tuple[Items, bool]:
    """``total`` divided into ``parts`` and the rest as ``kind``; parts are cut to the total, which is then said."""
    items: list[tuple[str, int]] = []
    rest, cut = total, False
    for name, quantity in parts:
        if quantity:
            cut = cut or quantity > rest
            if rest:
                items.append((name, min(quantity, rest)))
                rest -= items[-1][1]
    return ((kind, rest), *items), cut
