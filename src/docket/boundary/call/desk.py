"""What every carrier of calls works with, as one value, made once for a run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from docket.boundary.answers.denials import Denials
from docket.boundary.call.ports import Admission, Recorder
from docket.clock import Clock
from docket.ledger.events import CapExceeded, Event
from docket.storage.blobs import Blobs


class Cuttable(Protocol):
    """An answer under way."""

    def cut(self, why: str) -> None:
        """End it now; its call is recorded as truncated for the reason ``why``. Does not yield."""
        ...


class UnderWay(set[Cuttable]):
    """The answers under way, whoever carries them."""

    def cut(self, why: str) -> None:
        """Cut all of them."""
        for answer in tuple(self):
            answer.cut(why)


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """The collaborators of a call."""

    number: str
    """The docket number, for people who read an answer."""
    admission: Admission
    recorder: Recorder
    denials: Denials
    clock: Clock
    on_breach: Callable[[CapExceeded], None]
    """Told of a reached cap after the answer that reached it was delivered."""
    blobs: Blobs | None
    """Takes copies of bodies, where the policy wants them recorded."""
    under_way: UnderWay

    @classmethod
    def of(
        cls,
        *,
        number: str,
        admission: Admission,
        recorder: Recorder,
        clock: Clock,
        on_breach: Callable[[CapExceeded], None],
        blobs: Blobs | None = None,
        under_way: UnderWay | None = None,
    ) -> Desk:
        """Return the desk of a run with denials of its own."""
        return cls(
            number=number,
            admission=admission,
            recorder=recorder,
            denials=Denials(recorder.submit, number, on_breach),
            clock=clock,
            on_breach=on_breach,
            blobs=blobs,
            under_way=UnderWay() if under_way is None else under_way,
        )

    def record(self, *events: Event) -> asyncio.Future[Any]:
        """Submit ``events`` in order; the future is done once all are durable. Does not yield. Raises LedgerError."""
        submit = self.recorder.submit
        if len(events) == 1:
            return submit(events[0])
        durable = asyncio.gather(*[submit(event) for event in events])
        durable.add_done_callback(_seen)
        return durable


def _seen(durable: asyncio.Future[Any]) -> None:
    """A failed write is the recorder's to report, also where nobody waits for it."""
    if not durable.cancelled():
        durable.exception()
