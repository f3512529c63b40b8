"""The two events of a call: every member says what its name says, though values are handed on by place."""

from __future__ import annotations

import pytest

from docket.boundary.call.open_call import Arrived, end_event, request_event
from docket.control.breaker import Ended
from docket.control.decision import Admitted, Settlement
from docket.ledger.codec import to_data
from docket.ledger.events import CallNumber, Hold
from docket.ledger.usage import Counts, Item, Usage
from docket.primitives.money import Usd
from docket.providers.call import Call, Endpoint, EndpointClass, Observation

CALL = Call(
    upstream="an-upstream",
    provider="a-provider",
    endpoint=Endpoint(name="/an/endpoint", kind=EndpointClass.METERED, protocol="a-protocol", family="a-family"),
    model="asked",
    stream=True,
    max_output=1,
    body_bytes=8,
    retry_count=2,
)
ADMITTED = Admitted(call=CallNumber(3), hold=Hold(tokens=4, usd=Usd(5)), waited_us=6)
COUNTS = Counts(source="reported", items=(("input", 7),))


def test_the_first_event_says_what_the_call_asks() -> None:
    event = request_event(CALL, ADMITTED, {"target": "/t"}, amended=True)
    assert (event.by, event.private) == ("boundary", {"target": "/t"})
    assert to_data(event) == {
        "call": 3,
        "upstream": "an-upstream",
        "provider": "a-provider",
        "protocol": "a-protocol",
        "endpoint": "/an/endpoint",
        "model": "asked",
        "stream": True,
        "bytes": 8,
        "hold": {"tokens": 4, "usd": "0.000000000005"},
        "waited_us": 6,
        "max_output": 1,
        "amended": True,
        "retry_count": 2,
    }


@pytest.mark.parametrize(("reason", "kind"), [("complete", "model.response"), ("timeout", "model.error")])
def test_the_last_event_says_what_became_of_it(reason: str, kind: str) -> None:
    usage = Usage(source="reported", items=(Item("input", 7, Usd(10**12), 1),), cost_usd=Usd(7 * 10**12))
    arrived = Arrived(
        ended=Ended(reason=reason, status=201),
        seen=Observation(terminal="complete", counts=COUNTS, finish="stop"),
        size=9,
        first_byte_at=110,
        private={"detail": "d"},
        request_id="req",
    )
    event = end_event(
        CALL, ADMITTED, arrived, Settlement(usage=usage, model="served", tier="a-tier"), since=100, now=111
    )
    assert (event.type, event.by, event.private) == (kind, "boundary", {"detail": "d"})
    assert to_data(event) == {
        "call": 3,
        "status": 201,
        "reason": reason,
        "provider": "a-provider",
        "model": "served",
        "tier": "a-tier",
        "finish": "stop",
        "provider_request_id": "req",
        "bytes": 9,
        "first_byte_us": 10,
        "duration_us": 11,
        "usage": {
            "source": "reported",
            "items": [{"kind": "input", "quantity": 7, "unit_usd": "1", "per": 1}],
            "cost_usd": "7",
        },
    }
