"""Reading a request's body, the same for every protocol that puts JSON into a POST."""

from __future__ import annotations

from dataclasses import dataclass, field

import orjson

from docket.providers.call import UNKNOWN_MODEL, Call, Endpoint
from docket.providers.figures import Document, text

MAX_MODEL = 256
"""Longest model name believed, in characters: a longer one names no model of anybody."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request body that was looked at; ``document`` is empty where it could not be read."""

    size: int
    parsed: bool
    document: Document = field(default_factory=dict)

    def call(
        self,
        *,
        upstream: str,
        provider: str,
        endpoint: Endpoint,
        model: str | None = None,
        stream: bool | None = None,
        max_output: int | None = None,
        choices: int = 1,
        tier: str | None = None,
        stateful: bool = False,
        previous: str | None = None,
        usage_in_stream: bool | None = None,
    ) -> Call:
        """The call that this body makes; ``model`` and ``stream`` default to the members of those names."""
        named = model or text(self.document, "model")
        return Call(
            upstream=upstream,
            provider=provider,
            endpoint=endpoint,
            model=named if named and len(named) <= MAX_MODEL else UNKNOWN_MODEL,
            stream=self.document.get("stream") is True if stream is None else stream,
            max_output=max_output,
            choices=choices,
            tier=tier,
            body_bytes=self.size,
            parsed=self.parsed,
            stateful=stateful,
            previous=previous,
            usage_in_stream=usage_in_stream,
        )


def read_request(body: bytes) -> Asked:
    """``body`` (content coding removed) as a JSON object; anything else is not parsed."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return Asked(len(body), parsed=False)
    if not isinstance(document, dict):
        return Asked(len(body), parsed=False)
    return Asked(len(body), parsed=True, document=document)
