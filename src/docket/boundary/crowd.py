"""The agent's connections of one run: how many there may be, and which are ended because they only wait.

Invariants: docket keeps descriptors for its ledger and its upstreams, whatever the agent opens; a connection on which
a request is under way is never ended here. Nothing is timed for a connection or a call: all are looked at together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from docket.boundary.http1.agent_connection import Connection

MAX_CONNECTIONS = 4096
"""Connections of the agent at once: each holds a task and at most a few hundred KiB."""
MIN_CONNECTIONS = 16
"""As many there may be however few descriptors there are: fewer would not serve one agent."""
RESERVED_DESCRIPTORS = 64
"""Descriptors for the ledger, the guardian, listeners, blobs and whatever a library opens."""
HEAD_SECONDS = 30
"""How long a request head may take from its first byte, however it drips."""
IDLE_SECONDS = 300
"""How long a connection may be open without a request: longer than the pools of the SDKs keep one."""
LOOK_SECONDS = 1.0
"""How often the connections are looked at."""


def most_connections(descriptors: int) -> int:
    """Return how many connections there may be with so many ``descriptors``: each call takes one more upstream."""
    return max(MIN_CONNECTIONS, min(MAX_CONNECTIONS, (descriptors - RESERVED_DESCRIPTORS) // 2))


@dataclass(slots=True)
class _Wait:
    """Since when a connection has been waiting for the rest of a head, or for a head at all."""

    requests: int
    begun: bool
    since_us: int


@dataclass(slots=True)
class Crowd:
    """Who is connected. ``most`` is how many there may be."""

    most: int = MAX_CONNECTIONS
    turned_away: int = 0
    """Connections that found no room since the last look."""
    _waits: dict[Connection, _Wait | None] = field(default_factory=dict)

    def admit(self, connection: Connection) -> bool:
        """Take ``connection`` in, in the place of the one that has been idle the longest where there is no other.

        One whose head was begun goes only where none is plainly idle: who has a request sends its head at once. Return
        False, and count it, where every connection has a request under way.
        """
        if len(self._waits) >= self.most:
            idle = [one for one in self._waits if one.idle]
            if not idle:
                self.turned_away += 1
                return False
            longest = min(idle, key=lambda one: (one.begun, self._idle_since_us(one)))
            del self._waits[longest]
            longest.close()
        self._waits[connection] = None
        return True

    def _idle_since_us(self, connection: Connection) -> float:
        """Since when it was seen to wait; one that was not looked at yet comes after those that were."""
        wait = self._waits[connection]
        return wait.since_us if wait is not None else math.inf

    def leave(self, connection: Connection) -> None:
        """``connection`` has ended."""
        self._waits.pop(connection, None)

    def overdue(self, now_us: int) -> list[Connection]:
        """Return the connections that have waited too long, as seen at this look and the ones before."""
        late = []
        for connection, wait in self._waits.items():
            if not connection.idle:
                self._waits[connection] = None
                continue
            begun = connection.begun
            if wait is None or (wait.requests, wait.begun) != (connection.requests, begun):
                self._waits[connection] = _Wait(connection.requests, begun, now_us)
            elif now_us - wait.since_us >= (HEAD_SECONDS if begun else IDLE_SECONDS) * 1_000_000:
                late.append(connection)
        return late
