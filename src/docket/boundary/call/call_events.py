"""The events of one call, the same whatever carried it: ``model.request``, and exactly one that ends it."""

from __future__ import annotations

from collections.abc import Mapping

from docket.control.breaker import Ended
from docket.control.decision import Admitted, Settlement
from docket.ledger.events import ModelError, ModelRequest, ModelResponse
from docket.primitives.canonical import Json
from docket.primitives.frozen import value
from docket.providers.call import Call, Observation

_ANSWERED = frozenset({"complete", "incomplete", "unterminated"})
"""Reasons of a ``model.response``; any other is a ``model.error`` (evidence format section 2)."""


@value
class Measured:
    """What was measured of an answer: bytes (None without a head), and microseconds from the admission."""

    bytes: int | None
    first_byte_us: int | None
    duration_us: int


def requested(
    call: Call, admitted: Admitted, *, size: int, private: Mapping[str, Json], amended: bool = False
) -> ModelRequest:
    """The event that introduces ``call``, whose request has ``size`` bytes as the agent sent it."""
    return ModelRequest(
        admitted.call,
        call.upstream,
        call.provider,
        call.endpoint.protocol,
        call.endpoint.name,
        call.model,
        call.stream,
        size,
        admitted.hold,
        admitted.waited_us,
        call.max_output,
        amended or None,
        call.retry_count,
        private=private,
    )


def ending(
    call: Call,
    admitted: Admitted,
    ended: Ended,
    settlement: Settlement,
    seen: Observation | None,
    measured: Measured,
    *,
    private: Mapping[str, Json],
    provider_request_id: str | None = None,
) -> ModelResponse | ModelError:
    """The event that ends ``call``; ``seen`` is what was observed of the answer, None where nobody looked."""
    kind = ModelResponse if ended.reason in _ANSWERED else ModelError
    return kind(
        admitted.call,
        ended.status,
        ended.reason,
        call.provider,
        settlement.model,
        settlement.tier,
        _finish(seen),
        provider_request_id,
        measured.bytes,
        measured.first_byte_us,
        measured.duration_us,
        settlement.usage,
        private=private,
    )


def reason_of(seen: Observation | None) -> str:
    """The ``reason`` of a call whose answer came whole, by what was seen in it (evidence format section 2)."""
    if seen is None:
        return "complete"
    return "error-event" if seen.terminal == "error" else seen.terminal


def _finish(seen: Observation | None) -> str | None:
    """Why the model stopped, in the provider's word; ``none`` where an answer with content ended without any."""
    if seen is None:
        return None
    return seen.finish or ("none" if seen.terminal == "unterminated" else None)
