"""Calls, endings and a gate over the toy prices."""

from __future__ import annotations

from typing import Any

from docket.control.admission import Gate
from docket.control.breaker import Ended
from docket.ledger.usage import Counts
from docket.policy.parse import parse
from docket.pricing.table import PriceTable
from docket.primitives.instant import Instant
from docket.providers.call import Call, Endpoint, EndpointClass, Observation

from ..pricing.toy import toy_table

CHAT = Endpoint(name="/v1/chat/completions", kind=EndpointClass.METERED, protocol="openai-chat", family="openai")
COMPLETE = Ended(reason="complete", status=200)
NOW = Instant(0)


def gate(policy: str = "", table: PriceTable | None = None) -> Gate:
    return Gate(parse(policy, "docket.toml"), table or toy_table())


def call(**members: Any) -> Call:
    return Call(
        **{
            "upstream": "up",
            "provider": "acme",
            "endpoint": CHAT,
            "model": "acme-chat-1",
            "max_output": 1000,
            "body_bytes": 300,
            "parsed": True,
            **members,
        }
    )


def answer(input: int = 100, output: int = 50, **members: Any) -> Observation:
    counts = Counts(source="reported", items=(("input", input), ("output", output)))
    return Observation(**{"terminal": "complete", "counts": counts, "model": "acme-chat-1", **members})
