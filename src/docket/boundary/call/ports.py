"""The four small protocols around one call: who admits it, records it, carries it and answers it.

A test of a call is four stand-ins and a list.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from docket.boundary.answers.refusals import Answer
from docket.boundary.http1.response import Outgoing
from docket.boundary.http1.upstream_connection import Informed
from docket.boundary.http1.wire import Framing, Header, ResponseHead
from docket.control.breaker import Ended
from docket.control.budget import Wait
from docket.control.decision import Admitted, Refused, Settlement
from docket.ledger.events import Event
from docket.providers.call import Call, Observation


class Admission(Protocol):
    """Decides on calls."""

    def admit(self, call: Call) -> Admitted | Refused | Wait:
        """Return a reservation, why there is none, or that others have to settle first. Does not yield."""
        ...

    async def wait(self, call: Call, wait: Wait) -> Admitted | Refused:
        """Return what ``admit`` could not say yet, the reservation in the step that makes it. May be cancelled."""
        ...

    def settle(self, admitted: Admitted, call: Call, ended: Ended, observation: Observation | None) -> Settlement:
        """Book what became of an admitted call. Does not yield: a cancelled call is booked as it is recorded."""
        ...

    def answered(self, admitted: Admitted, ended: Ended) -> tuple[Event, ...]:
        """Return the events of a call whose answer comes later: its hold stays, its breaker settles. Does not yield."""
        ...

    def release(self, admitted: Admitted) -> None:
        """Give back the reservation of a call that was never sent. Does not yield."""
        ...


class Recorder(Protocol):
    """Takes events in order."""

    def submit(self, event: Event) -> asyncio.Future[Any]:
        """Take ``event`` now; the future is done when it is on stable storage.

        Its result is None where the event is lost and the run goes on all the same.
        """
        ...

    def refusal(self, *, lost: bool = False) -> Refused | None:
        """Return why no model call may be forwarded as the record stands, if none may.

        ``lost``: the request of the call in question could not be recorded.
        """
        ...


class UpstreamAnswer(Protocol):
    """An answer that comes in."""

    head: ResponseHead
    framing: Framing
    ended: bool
    trailers: tuple[Header, ...]

    async def read(self) -> bytes: ...

    def read_ready(self) -> bytes: ...

    def close(self) -> None: ...


class Upstream(Protocol):
    """Reaches providers."""

    async def open(self, request: Outgoing, informed: Informed) -> UpstreamAnswer: ...


class Client(Protocol):
    """The agent's side."""

    @property
    def started(self) -> bool:
        """Whether the head of an answer went out."""
        ...

    def on_gone(self, listener: Callable[[], None] | None) -> None: ...

    async def informational(self, head: ResponseHead) -> None: ...

    def start(self, head: ResponseHead, framing: Framing) -> None: ...

    async def flush(self) -> None: ...

    def write(self, data: bytes) -> Awaitable[None]: ...

    def end(self, last: bytes = b"", trailers: Sequence[Header] = ()) -> Awaitable[None]: ...

    async def refuse(self, answer: Answer) -> None: ...

    def cut(self) -> None: ...
