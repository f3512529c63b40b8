"""The agent's side of a call with something before it: whatever is not overridden passes on unchanged."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from docket.boundary.answers.refusals import Answer
from docket.boundary.call.ports import Client
from docket.boundary.http1.wire import Framing, Header, ResponseHead


class ClientWrapper:
    """A ``Client`` that hands everything to another."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @property
    def started(self) -> bool:
        return self._client.started

    def on_gone(self, listener: Callable[[], None] | None) -> None:
        self._client.on_gone(listener)

    async def informational(self, head: ResponseHead) -> None:
        await self._client.informational(head)

    def start(self, head: ResponseHead, framing: Framing) -> None:
        self._client.start(head, framing)

    async def flush(self) -> None:
        await self._client.flush()

    async def write(self, data: bytes) -> None:
        await self._client.write(data)

    async def end(self, last: bytes = b"", trailers: Sequence[Header] = ()) -> None:
        await self._client.end(last, trailers)

    async def refuse(self, answer: Answer) -> None:
        await self._client.refuse(answer)

    def cut(self) -> None:
        self._client.cut()
