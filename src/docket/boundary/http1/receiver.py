"""What arrived on a connection and was not taken yet: the reading half of both sides of the boundary.

Invariant: reading pauses above ``HIGH_WATER`` and goes on below half of it, so at most that and one read wait here.
"""

from __future__ import annotations

import asyncio

HIGH_WATER = 256 * 1024
"""Unread bytes of one connection at which reading pauses: two socket buffers, so that a body flows without stopping."""


class Receiver(asyncio.Protocol):
    """A protocol that keeps received bytes until they are taken; one waiter at a time is woken by more of them."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._buffer = b""
        self._reading: asyncio.Future[bool] | None = None
        self._paused_reading = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._loop = asyncio.get_running_loop()

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data  # nearly always all was taken: no copy
        if len(self._buffer) > HIGH_WATER and not self._paused_reading:
            self._paused_reading = True
            self.transport.pause_reading()
        waiter = self._reading
        if waiter is not None and not waiter.done():
            waiter.set_result(True)

    def _coming(self) -> asyncio.Future[bool]:
        """To wait for bytes beyond those received: whether there are any."""
        self._reading = self._loop.create_future()
        return self._reading

    def take(self, limit: int) -> bytes:
        """At most ``limit`` of the received bytes."""
        data, self._buffer = self._buffer[:limit], self._buffer[limit:]
        if self._paused_reading and len(self._buffer) <= HIGH_WATER // 2:
            self._paused_reading = False
            self.transport.resume_reading()
        return data


def wake(waiter: asyncio.Future[bool] | None, result: bool = True) -> None:
    """Let ``waiter`` go on, if there is one that still waits."""
    if waiter is not None and not waiter.done():
        waiter.set_result(result)
