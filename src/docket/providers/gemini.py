"""Gemini (``models/X:generateContent``, ``models/X:streamGenerateContent``), at Google AI and at Vertex AI.

Source: Gemini API reference, "GenerateContentResponse" and "UsageMetadata": the counts are running totals; the prompt
holds its cached part; thoughts and the prompts of tools stand beside candidates and prompt;
``totalTokenCount`` is the sum of the four.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from docket.ledger.usage import Counts, Quantities
from docket.providers.answer import AnswerObserver, ErrorFold, ending, error_type
from docket.providers.base import Observer
from docket.providers.call import Call, Observation, Sent
from docket.providers.framing import framing_of
from docket.providers.json_array import Elements
from docket.providers.json_fields import Document, Malformed, counter, limit, member, members, text
from docket.providers.request import read_request
from docket.providers.usage_members import (
    MAX_NAMED,
    leaves,
    rising,
    says_nothing,
    split_input,
    split_output,
    unread,
)

COMPLETE = frozenset({"STOP", "FINISH_REASON_UNSPECIFIED"})
"""Reasons to finish that mean a whole answer; every other one (MAX_TOKENS, SAFETY, ...) is an incomplete one."""
MODALITIES = {"AUDIO": "audio", "IMAGE": "image", "VIDEO": "video"}
"""Parts of a count that may have a price of their own."""
_KNOWN_MODALITIES = frozenset({*MODALITIES, "TEXT", "DOCUMENT", "MODALITY_UNSPECIFIED"})
_DETAILS = (
    "promptTokensDetails",
    "toolUsePromptTokensDetails",
    "cacheTokensDetails",
    "candidatesTokensDetails",
    "responseTokensDetails",
)
_SCHEMA = leaves(
    "promptTokenCount toolUsePromptTokenCount candidatesTokenCount responseTokenCount thoughtsTokenCount"
    " cachedContentTokenCount totalTokenCount trafficType serviceTier",
    **{name: leaves("modality tokenCount") for name in _DETAILS},
)
MAX_QUERIES = 4096
"""Distinct queries of one answer that are told apart."""


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

    def observer(self, call: Call, status: int, media_type: bytes) -> Observer:
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
        self._fell = False
        self._content = False
        self._model: str | None = None
        self._id: str | None = None
        self._finish: str | None = None
        self._error: str | None = None
        self._failed = False
        self._grounding = Grounding()

    def see(self, name: bytes, document: Document) -> None:
        if document.get("error") is not None:
            self._failed = self.ended = True
            self._error = error_type(document)
        self._model = text(document, "modelVersion") or self._model
        self._id = text(document, "responseId") or self._id
        usage = member(document, "usageMetadata")
        if usage:
            self._usage, fell = rising(self._usage, usage)
            self._fell = self._fell or fell
        for candidate in members(document, "candidates"):
            self._finish = text(candidate, "finishReason") or self._finish
            self._content = self._content or bool(member(candidate, "content").get("parts"))
            self._grounding.take(member(candidate, "groundingMetadata"))
        self._finish = text(member(document, "promptFeedback"), "blockReason") or self._finish
        self.ended = self.ended or (self._finish is not None and bool(usage))

    def observe(self, *, clean: bool, streamed: bool, size: int) -> Observation:
        cut_short = frozenset({self._finish}) - COMPLETE if self._finish else frozenset()
        terminal = ending(error=self._failed, done=self.ended, finish=self._finish, limits=cut_short, clean=clean)
        counts, thoughts = read_usage(self._usage, final=terminal in ("complete", "incomplete"))
        if counts.source != "none":
            named = tuple(dict.fromkeys((*counts.unread, *self._grounding.unread)))[:MAX_NAMED]
            silent = self._content and says_nothing(counts.items)
            counts = replace(
                counts,
                source="partial" if named or silent or self._fell else counts.source,
                items=(*counts.items, *self._grounding.fees(self._model or self._asked)),
                inconsistent=counts.inconsistent or self._fell,
                unread=named,
            )
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


class Grounding:
    """What an answer says of searches that Google ran for it: each fee by its own evidence."""

    def __init__(self) -> None:
        self._queries: set[str] = set()
        self._web = False
        self._maps = False
        self._full = False
        self._unknown: dict[str, None] = {}

    def take(self, grounding: Document) -> None:
        """Take the ``groundingMetadata`` of a candidate."""
        for name, listed in grounding.items():
            if name == "webSearchQueries" and isinstance(listed, list):
                for query in listed:
                    if isinstance(query, str) and query.strip():
                        self._full = self._full or len(self._queries) >= MAX_QUERIES
                        if not self._full:
                            self._queries.add(query)
            elif name.endswith("Queries") and name != "retrievalQueries" and listed:
                self._unknown[f"groundingMetadata.{name}"[:64]] = None
        chunks = members(grounding, "groundingChunks")
        self._maps = self._maps or any("maps" in chunk for chunk in chunks)
        self._web = self._web or "searchEntryPoint" in grounding or any("web" in chunk for chunk in chunks)

    @property
    def unread(self) -> tuple[str, ...]:
        """Lists of queries that are billed by a rule that is not known here, or too long to count."""
        return (*self._unknown, *(("groundingMetadata.webSearchQueries",) if self._full else ()))

    def fees(self, model: str) -> Quantities:
        """The fees by kind; queries of a map, without anything from the web, are no web searches."""
        found: list[tuple[str, int]] = []
        if self._queries and (self._web or not self._maps):
            found.append(("web_search", searches_billed(model, len(self._queries))))
        if self._maps:
            found.append(("maps_search", 1))
        return tuple(found)


def searches_billed(model: str, queries: int) -> int:
    """Searches with Google that an answer is billed for, of so many distinct queries that are not empty.

    A grounded prompt counts once up to Gemini 2, each query after.
    """
    return 1 if model.rpartition("/")[2].startswith(("gemini-1", "gemini-2")) else queries


def read_usage(usage: Document, *, final: bool) -> tuple[Counts, int | None]:
    """A ``usageMetadata`` object as kinds that do not overlap, and the thoughts inside the output."""
    unknown = unread(usage, _SCHEMA) + _unknown_modalities(usage)
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
        return Counts(source="none", inconsistent=True, unread=unknown), None
    if prompt is None and total is not None:
        prompt = max(0, total - (tools or 0) - (candidates or 0) - (thoughts or 0))
    if prompt is None:
        return Counts(source="none", unread=unknown), None
    billed_in, output, contradicts = _meant(prompt, tools or 0, candidates, thoughts or 0, total)
    if contradicts and total is not None and total > billed_in + (output or 0):
        unknown = (*unknown[: MAX_NAMED - 1], "totalTokenCount")  # it holds tokens that no part tells of
    details = "cacheTokensDetails"
    into = split_input(billed_in, cached, 0, parts_in, parts_cached if members(usage, details) else None)
    items, over = into.items, into.over
    if output is not None:
        out = split_output(output, parts_out)
        items, over = items + out.items, over or out.over
    return Counts(
        source="reported" if final and output is not None and not unknown else "partial",
        items=items,
        inconsistent=contradicts or over,
        unread=unknown,
        assumed=(details,) if into.assumed else (),
    ), thoughts


def _unknown_modalities(usage: Document) -> tuple[str, ...]:
    """Breakdowns that hold tokens of a modality whose price is not known to be that of text."""
    return tuple(
        f"{name}.{detail.get('modality')}"[:64]
        for name in _DETAILS
        for detail in members(usage, name)
        if detail.get("tokenCount") and detail.get("modality") not in _KNOWN_MODALITIES
    )[:MAX_NAMED]


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


def _tier(usage: Document) -> str | None:
    """``serviceTier`` at Google AI; at Vertex AI ``trafficType`` ends in the tier (``ON_DEMAND_PRIORITY``)."""
    named = text(usage, "serviceTier")
    if named:
        return named.removeprefix("SERVICE_TIER_").lower()
    traffic = text(usage, "trafficType")
    if traffic in (None, "ON_DEMAND", "TRAFFIC_TYPE_UNSPECIFIED"):
        return None
    return traffic.removeprefix("ON_DEMAND_").lower()
