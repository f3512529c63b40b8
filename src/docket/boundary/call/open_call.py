"""One call from its admission to its settlement: admit, record, settle, record. Whatever carries its bytes.

Invariants: a call is open only once its ``model.request`` event is durable; from its admission on it is released or
settled exactly once, whatever fails or is cancelled where; settling and submitting the end event are one step that does
not yield; a breach is told after the answer that reached the cap was delivered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol, get_args

from docket.boundary.call.desk import Desk
from docket.control.breaker import Ended
from docket.control.budget import Wait
from docket.control.decision import Admitted, Refused, Settlement
from docket.errors import ClientGoneError
from docket.ledger.events import AnswerReason, CallNumber, EndReason, ModelError, ModelRequest, ModelResponse
from docket.primitives.canonical import Json
from docket.primitives.frozen import value
from docket.providers.call import Call, Observation

_ANSWERED: frozenset[EndReason] = frozenset(get_args(AnswerReason))
"""Reasons of a ``model.response``; any other is a ``model.error`` (evidence format section 2)."""


@value
class Arrived:
    """What arrived of an answer, as its carrier saw it."""

    ended: Ended
    seen: Observation | None
    """What was observed of it; None where nobody looked."""
    size: int | None
    """Bytes; None where not even a head came."""
    first_byte_at: int | None
    """Microseconds on the monotonic clock."""
    private: Mapping[str, Json]
    """Private members of the end event."""
    request_id: str | None = None
    """The provider's own name for the request."""


class Carrier(Protocol):
    """Carries the answer to one call."""

    def arrived(self) -> Arrived:
        """Return what arrived of the answer so far; asked once, when the call ends. Does not yield."""
        ...


class Peer(Protocol):
    """An agent that may leave."""

    def on_gone(self, listener: Callable[[], None] | None) -> None: ...


class OpenCall:
    """A call under way, as an async context manager: it enters with itself, or with the refusal of the call.

    What is still open when the context ends, for whatever reason, is settled by what its carrier saw.
    """

    __slots__ = (
        "_admitted",
        "_amended",
        "_call",
        "_carrier",
        "_desk",
        "_kept",
        "_of",
        "_open",
        "_peer",
        "_private",
        "_since",
        "ended",
        "settlement",
    )
    ended: Ended
    """How it ended; there once ``end`` was called."""
    settlement: Settlement
    """What it was booked at; there once ``end`` was called."""

    def __init__(
        self,
        desk: Desk,
        call: Call,
        private: Mapping[str, Json],
        carrier: Carrier,
        peer: Peer,
        amended: bool = False,
        of: CallNumber | None = None,
    ) -> None:
        """``private`` stands in the ``model.request`` event; ``amended`` says that docket changed the request.

        ``of`` is the first attempt, where this call is another one of docket's own.
        """
        self._desk = desk
        self._call = call
        self._private = private
        self._carrier = carrier
        self._peer = peer
        self._amended = amended
        self._of = of
        self._open = False
        self._kept = False

    async def begin(self) -> OpenCall | Refused:
        """Admit the call and record its request. Return this once that is durable, or why the call is refused.

        Raises ClientGoneError where the agent leaves while its call waits for others to settle, LedgerError.
        """
        desk = self._desk
        decision = desk.recorder.refusal() or desk.admission.admit(self._call)
        if isinstance(decision, Wait):
            try:
                with UntilGone(self._peer):
                    decision = await desk.admission.wait(self._call, decision)
            except (ClientGoneError, asyncio.CancelledError):
                desk.denials.left(self._call.upstream, self._call.model)
                raise
        if isinstance(decision, Refused):
            return decision
        self._admitted, self._since, self._open = decision, desk.clock.monotonic_us(), True
        try:
            for event in decision.events:
                desk.recorder.submit(event)
            request = request_event(self._call, decision, self._private, self._amended, self._of)
            entry = await desk.recorder.submit(request)  # durable after those before it
            refused = desk.recorder.refusal(lost=True) if entry is None else None
        except BaseException:
            self.close()
            raise
        if refused is not None:
            self._open = False
            desk.admission.release(decision)
            return refused
        return self

    def end(self) -> asyncio.Future[Any]:
        """Book the call and submit its end event; the future is done once that is durable. Does not yield.

        To be called once. Raises LedgerError where the ledger takes nothing more.
        """
        assert self._open, "a call ends once"
        self._open = False
        desk, call, admitted, arrived = self._desk, self._call, self._admitted, self._carrier.arrived()
        self.ended = arrived.ended
        self.settlement = booked = desk.admission.settle(admitted, call, arrived.ended, arrived.seen)
        event = end_event(call, admitted, arrived, booked, self._since, desk.clock.monotonic_us())
        further = (*booked.warnings, *booked.breaches, *booked.events)
        return desk.record(event, *further) if further else desk.recorder.submit(event)

    def stay_open(self, carrier: Carrier, ended: Ended) -> asyncio.Future[Any]:
        """Keep the call and its hold beyond its context, to be ended and closed later. Does not yield.

        ``carrier`` says then what arrived; ``ended`` is how the answer so far did, for the breaker alone. The future is
        done once what follows from it is durable. Raises LedgerError.
        """
        self._carrier, self._kept = carrier, True
        self.ended = Ended("background", ended.status)
        return self._desk.record(*self._desk.admission.answered(self._admitted, ended))

    def close(self) -> None:
        """Settle the call where it is still open, and tell of the caps that it reached. Does not yield."""
        try:
            if self._open:
                self.end()
        finally:
            if not self._open and hasattr(self, "settlement"):
                for breach in self.settlement.breaches:
                    self._desk.on_breach(breach)

    __aenter__ = begin

    async def __aexit__(self, *_error: object) -> None:
        if not self._kept:
            self.close()

    @property
    def number(self) -> CallNumber:
        """The call number; there once it was admitted."""
        return self._admitted.call

    @property
    def whole(self) -> bool:
        """Whether the provider answered to the end, with success."""
        return self.ended.reason in ("complete", "incomplete") and self.ended.status is not None


def request_event(
    call: Call, admitted: Admitted, private: Mapping[str, Json], amended: bool, of: CallNumber | None = None
) -> ModelRequest:
    """Return the event that introduces ``call``, an attempt ``of`` an earlier one."""
    return ModelRequest(
        admitted.call,
        call.upstream,
        call.provider,
        call.endpoint.protocol,
        call.endpoint.name,
        call.model,
        call.stream,
        call.body_bytes,
        admitted.hold,
        admitted.waited_us,
        call.max_output,
        amended or None,
        call.retry_count,
        of,
        private=private,
    )


def end_event(
    call: Call, admitted: Admitted, arrived: Arrived, settlement: Settlement, since: int, now: int
) -> ModelResponse | ModelError:
    """Return the event that ends ``call``, admitted at ``since`` and settled at ``now`` (monotonic microseconds)."""
    ended, seen, first = arrived.ended, arrived.seen, arrived.first_byte_at
    kind = ModelResponse if ended.reason in _ANSWERED else ModelError
    finish = None
    if seen is not None:  # an answer with content that ended without any reason says "none"
        finish = seen.finish or ("none" if seen.terminal == "unterminated" else None)
    return kind(
        admitted.call,
        ended.status,
        ended.reason,
        call.provider,
        settlement.model,
        settlement.tier,
        call.upstream,
        finish,
        arrived.request_id,
        arrived.size,
        None if first is None else first - since,
        now - since,
        settlement.usage,
        private=arrived.private,
    )


def reason_of(seen: Observation | None) -> EndReason:
    """Return the ``reason`` of a call whose answer came whole, by what was seen in it (evidence format section 2)."""
    if seen is None:
        return "complete"
    return "error-event" if seen.terminal == "error" else seen.terminal


class UntilGone:
    """A block that ends with ClientGoneError when its peer leaves; a cancellation for another reason stays one."""

    __slots__ = ("_fired", "_peer", "_task")

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._fired = False

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._peer.on_gone(self.leave)

    def leave(self) -> None:
        """End the block, as when the peer leaves. Does not yield."""
        self._fired = True
        self._task.cancel()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        self._peer.on_gone(None)
        if self._fired and self._task.uncancel() == 0 and kind is asyncio.CancelledError:
            raise ClientGoneError("the agent left while its call was under way") from error
