"""Gemini (``models/X:generateContent``, ``models/X:streamGenerateContent``), at Google AI and at Vertex AI.

Source: Gemini API reference, "GenerateContentResponse" and "UsageMetadata": the counts are running totals; the prompt
holds its cached part; thoughts and the prompts of tools stand beside candidates and prompt;
``totalTokenCount`` is the sum of the four.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from docket.ledger.usage import Counts
from docket.providers.answer import NOTHING, AnswerObserver, ErrorFold, ending, error_type
from docket.providers.base import Observer
from docket.providers.call import Call, Observation, Sent
from docket.providers.framing import framing_of
from docket.providers.json_array import Elements
from docket.providers.json_fields import Document, Malformed, counter, limit, member, members, text
from docket.providers.request import read_request

COMPLETE = frozenset({"STOP", "FINISH_REASON_UNSPECIFIED"})
"""Reasons to finish that mean a whole answer; every other one (MAX_TOKENS, SAFETY, ...) is an incomplete one."""
MODALITIES = {"AUDIO": "audio", "IMAGE": "image", "VIDEO": "video"}
"""Parts of a count that may have a price of their own."""


class Gemini:
    protocol = "gemini"

    def call(self, sent: Sent) -> Call:
        asked = read_request(sent)
        config = {
            **member(asked.document, "generation_config"),
            **member(asked.document, "generationConfig"),
        }
        return asked.call(
            stream=sent.endpoint.name.endswith("streamGenerateContent"),
            max_output=limit(config, "maxOutputTokens", "max_output_tokens"),
            choices=limit(config, "candidateCount", "candidate_count") or 1,
            open_input=_is_open(asked.document),
        )

    def observer(self, call: Call, *, status: int, media_type: bytes) -> Observer:
        if status >= 400:
            return AnswerObserver(framing_of(media_type), ErrorFold())
        return AnswerObserver(framing_of(media_type, Elements()), ContentFold(call.model))


def _is_open(document: Document) -> bool:
    """Whether input comes from elsewhere: cached contents, a file by its address, tools that the provider runs."""
    if document.get("cachedContent") or document.get("cached_content"):
        return True
    declared = ("functionDeclarations", "function_declarations")
    if any(name not in declared for tool in members(document, "tools") for name in tool):
        return True
    for content in members(document, "contents"):
        if any("fileData" in part or "file_data" in part for part in members(content, "parts")):
            return True
    return False


class ContentFold:
    """Reads the responses of one answer: one, or one a chunk."""

    terminators: ClassVar[frozenset[bytes]] = frozenset()

    def __init__(self, asked: str) -> None:
        """``asked`` is the model that the request named."""
        self.ended = False
        self._asked = asked
        self._usage: Document = {}
        self._model: str | None = None
        self._id: str | None = None
        self._finish: str | None = None
        self._error: str | None = None
        self._failed = False
        self._queries = 0

    def see(self, name: bytes, document: Document) -> None:
        if document.get("error") is not None:
            self._failed = self.ended = True
            self._error = error_type(document)
        self._model = text(document, "modelVersion") or self._model
        self._id = text(document, "responseId") or self._id
        usage = member(document, "usageMetadata")
        if usage:
            self._usage = {**self._usage, **{name: value for name, value in usage.items() if value is not None}}
        for candidate in members(document, "candidates"):
            self._finish = text(candidate, "finishReason") or self._finish
            queries = member(candidate, "groundingMetadata").get("webSearchQueries")
            if isinstance(queries, list):
                self._queries = max(self._queries, len(queries))
        self._finish = text(member(document, "promptFeedback"), "blockReason") or self._finish
        self.ended = self.ended or (self._finish is not None and bool(usage))

    def observe(self, *, clean: bool, streamed: bool, size: int) -> Observation:
        cut_short = frozenset({self._finish}) - COMPLETE if self._finish else frozenset()
        terminal = ending(error=self._failed, done=self.ended, finish=self._finish, limits=cut_short, clean=clean)
        counts, thoughts = read_usage(self._usage, final=terminal in ("complete", "incomplete"))
        if self._queries and counts.source != "none":
            searches = ("web_search", searches_billed(self._model or self._asked, self._queries))
            counts = replace(counts, items=(*counts.items, searches))
        return Observation(
            terminal=terminal,
            counts=counts,
            model=self._model,
            tier=_tier(self._usage),
            finish=self._finish,
            error_type=self._error,
            answer_id=self._id,
            reasoning=thoughts,
            size=size,
        )


def searches_billed(model: str, queries: int) -> int:
    """Searches with Google that an answer is billed for: a grounded prompt once up to Gemini 2, each query after."""
    return 1 if model.rpartition("/")[2].startswith(("gemini-1", "gemini-2")) else queries


def read_usage(usage: Document, *, final: bool) -> tuple[Counts, int | None]:
    """A ``usageMetadata`` object as kinds that do not overlap, and the thoughts inside the output."""
    try:
        prompt = counter(usage, "promptTokenCount")
        tools = counter(usage, "toolUsePromptTokenCount")
        candidates = counter(usage, "candidatesTokenCount", "responseTokenCount")
        thoughts = counter(usage, "thoughtsTokenCount")
        cached = counter(usage, "cachedContentTokenCount") or 0
        total = counter(usage, "totalTokenCount")
        parts_in = _parts(usage, "promptTokensDetails", "toolUsePromptTokensDetails")
        parts_cached = _parts(usage, "cacheTokensDetails")
        parts_out = _parts(usage, "candidatesTokensDetails", "responseTokensDetails")
    except Malformed:
        return Counts(source="none", inconsistent=True), None
    if prompt is None and total is not None:
        prompt = max(0, total - (tools or 0) - (candidates or 0) - (thoughts or 0))
    if prompt is None:
        return NOTHING, None
    billed_in, output, contradicts = _meant(prompt, tools or 0, candidates, thoughts or 0, total)
    read = min(cached, billed_in)
    items, over = _items(billed_in - read, read, output, parts_in, parts_cached, parts_out)
    return Counts(
        source="reported" if final and output is not None else "partial",
        items=items,
        inconsistent=contradicts or over or read != cached,
    ), thoughts


def _meant(
    prompt: int, tools: int, candidates: int | None, thoughts: int, total: int | None
) -> tuple[int, int | None, bool]:
    """Input and output as billed (None is unknown), and whether no reading gives the provider's own total.

    Readings in order: Google's; thoughts inside the candidates; the tools' prompts inside the prompt; both.
    """
    said = candidates or 0
    if total is None:
        output = None if candidates is None and not thoughts else said + thoughts
        return prompt + tools, output, False
    for tool_part, thought_part in ((tools, thoughts), (tools, 0), (0, thoughts), (0, 0)):
        if prompt + tool_part + said + thought_part == total:
            return prompt + tool_part, said + thought_part, False
    if candidates is None and total > prompt + tools + thoughts:
        return prompt + tools, total - prompt - tools, False
    return prompt + tools, said + thoughts, True


def _parts(usage: Document, *names: str) -> dict[str, int]:
    """Counts of the modalities that are not text."""
    parts: dict[str, int] = {}
    for name in names:
        for detail in members(usage, name):
            kind = MODALITIES.get(str(detail.get("modality")))
            quantity = counter(detail, "tokenCount")
            if kind and quantity:
                parts[kind] = parts.get(kind, 0) + quantity
    return parts


def _items(
    fresh: int,
    read: int,
    output: int | None,
    parts_in: dict[str, int],
    parts_cached: dict[str, int],
    parts_out: dict[str, int],
) -> tuple[tuple[tuple[str, int], ...], bool]:
    """The items of a bill; parts are cut to their totals, which is then said."""
    items: list[tuple[str, int]] = []
    over = False
    uncached = {kind: max(0, quantity - parts_cached.get(kind, 0)) for kind, quantity in parts_in.items()}
    for base, total, parts in (
        ("input", fresh, uncached),
        ("cache_read", read, parts_cached),
        ("output", output, parts_out),
    ):
        if total is None:
            continue
        rest = total
        for kind, quantity in parts.items():
            over = over or quantity > rest
            part = min(quantity, rest)
            rest -= part
            if part:
                items.append((f"{base}_{kind}", part))
        if rest or base != "cache_read":
            items.append((base, rest))
    return tuple(items), over


def _tier(usage: Document) -> str | None:
    """``serviceTier`` at Google AI; at Vertex AI ``trafficType`` ends in the tier (``ON_DEMAND_PRIORITY``)."""
    named = text(usage, "serviceTier")
    if named:
        return named.removeprefix("SERVICE_TIER_").lower()
    traffic = text(usage, "trafficType") or ""
    return next((tier for tier in ("priority", "flex") if traffic.endswith(tier.upper())), None)
