"""Answers that come later, on other requests (``background: true``): their calls stay open until they were seen to end.

Invariant: such a call keeps its hold until an answer with its id has ended in sight, whoever asked for it, and is then
settled once; one that nobody asked for is settled at its hold when the run ends.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from docket.boundary.call.open_call import Arrived, Carrier, OpenCall, reason_of
from docket.boundary.call.tee import Watch
from docket.control.breaker import Ended
from docket.providers import registry
from docket.providers.call import Call, Observation
from docket.providers.targets import readings

MAX_AWAITED = 4096
"""Calls that are kept open at once; the next one is settled at its hold (a ledger may have 65,536 open calls)."""
_LATER = frozenset({"truncated", "unterminated"})
"""States of an answer that has not ended in sight."""


@dataclass(slots=True)
class _Awaited:
    """A call whose answer comes later; carries it, for its open call, from the first answer to the last."""

    call: Call
    open_call: OpenCall
    first: Arrived
    last: Observation | None = None

    def arrived(self) -> Arrived:
        """Return what arrived: the answer that ended, or that none did. Does not yield."""
        status = self.first.ended.status
        if self.last is None:
            return replace(self.first, ended=Ended("background", status))
        return replace(self.first, ended=Ended(reason_of(self.last), status, self.last.error_type), seen=self.last)


class BackgroundAnswers:
    """The calls of a run whose answers come later, by upstream and the provider's id of the answer."""

    def __init__(self) -> None:
        self._awaited: dict[tuple[str, str], _Awaited] = {}

    def keep(self, call: Call, open_call: OpenCall, carrier: Carrier) -> asyncio.Future[Any] | None:
        """Keep a call open if its answer comes later; None if it came. Does not yield.

        The future is done once what follows from the first answer is durable.
        """
        if not call.background or len(self._awaited) >= MAX_AWAITED:
            return None
        first = carrier.arrived()
        seen, status = first.seen, first.ended.status
        if seen is None or seen.answer_id is None or seen.terminal not in _LATER:
            return None
        key = (call.upstream, seen.answer_id)
        if key in self._awaited or status is None or not 200 <= status < 300:
            return None
        self._awaited[key] = awaited = _Awaited(call, open_call, first)
        whole = seen.terminal == "unterminated"  # the request was taken: that the rest comes later is no fault
        return open_call.stay_open(awaited, Ended("complete", status) if whole else first.ended)

    def watch(self, upstream: str, path: str) -> Watch | None:
        """What observes the answer to a request that is no call, if it may be one that is awaited."""
        call = next((each.call for (name, _), each in self._awaited.items() if name == upstream), None)
        if call is None or not any("responses" in segment.lower() for spelt in readings(path) for segment in spelt):
            return None
        return partial(registry.observer_of, call)

    def answered(self, upstream: str, seen: Observation | None) -> OpenCall | None:
        """The open call whose answer has ended in ``seen``, to be ended and closed by who asks. Does not yield."""
        if seen is None or seen.answer_id is None or seen.terminal in _LATER:
            return None
        awaited = self._awaited.pop((upstream, seen.answer_id), None)
        if awaited is None:
            return None
        awaited.last = seen
        return awaited.open_call

    async def close(self) -> None:
        """Settle at its hold every call whose answer nobody saw end. Raises LedgerError."""
        left = [each.open_call for each in self._awaited.values()]
        self._awaited.clear()
        recorded = [call.end() for call in left]
        for durable in recorded:
            await durable
        for call in left:
            call.close()
