"""The life of calls over a ledger: numbers without gaps, one request, one end (spec section 4).

Keeps only calls that are open or were skipped, both bounded.
"""

from __future__ import annotations

from docket.verify.report import Violation

MAX_OPEN = 65_536
"""Calls open at once, and numbers never seen: more than any docket lets be in flight, and it bounds a reader."""


class Calls:
    """The state after the events so far."""

    __slots__ = ("next", "open", "unrequested", "unseen")

    def __init__(self) -> None:
        self.next = 1
        self.open: set[int] = set()
        """Requested, not ended."""
        self.unseen: set[int] = set()
        """Numbers that were passed over."""
        self.unrequested = 0
        """Ends without a request."""

    def request(self, call: int) -> None:
        """A ``model.request``."""
        self._introduce(call)
        self.open.add(call)
        if len(self.open) > MAX_OPEN:
            raise Violation(f"more than {MAX_OPEN} calls open at once")

    def cache_hit(self, call: int) -> None:
        """A ``model.cache_hit``: request and end in one."""
        self._introduce(call)

    def end(self, call: int) -> None:
        """A ``model.response`` or ``model.error``."""
        if call in self.open:
            self.open.remove(call)
        elif call in self.unseen:
            self.unseen.remove(call)
            self.unrequested += 1
        elif call >= self.next:
            self._introduce(call)
            self.unrequested += 1
        else:
            raise Violation(f"call {call} has a second end")

    def excess(self, lost: dict[str, int]) -> str | None:
        """What is missing beyond the disclosed losses ``lost`` (by event type), or None."""
        hits = min(len(self.unseen), lost.get("model.cache_hit", 0))
        gone = len(self.unseen) - hits
        ends = lost.get("model.response", 0) + lost.get("model.error", 0)
        if len(self.open) > ends:
            return f"call {min(self.open)} has no end ({len(self.open)} without, {ends} disclosed as lost)"
        requests = lost.get("model.request", 0)
        if self.unrequested + gone > requests:
            return f"{self.unrequested + gone} calls without a request, {requests} disclosed as lost"
        return None

    @property
    def whole(self) -> bool:
        """Whether every call has its number, its request and its end."""
        return not (self.open or self.unseen or self.unrequested)

    def _introduce(self, call: int) -> None:
        if call < self.next:
            raise Violation(f"call {call} is introduced again, or out of order")
        if call - self.next + len(self.unseen) > MAX_OPEN:
            raise Violation(f"call {call} passes over more than {MAX_OPEN} numbers")
        self.unseen.update(range(self.next, call))
        self.next = call + 1
