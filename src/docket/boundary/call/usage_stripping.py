"""The agent's side of an answer from which one frame is taken out: the usage that docket asked for, not the agent.

Only an answer that comes in chunks and without content coding is changed; any other passes as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from docket.boundary.call.client_wrapper import ClientWrapper
from docket.boundary.call.ports import Client
from docket.boundary.http1.coding import content_codings
from docket.boundary.http1.wire import Framing, Header, ResponseHead
from docket.providers.amendment import UsageFrameRemover


class UsageStrippingClient(ClientWrapper):
    """Stands before a client and withholds the usage frame."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._remover: UsageFrameRemover | None = None

    def start(self, head: ResponseHead, framing: Framing) -> None:
        if framing.kind in ("chunked", "close") and not content_codings(head):
            self._remover = UsageFrameRemover()
        self._client.start(head, framing)

    async def write(self, data: bytes) -> None:
        left = data if self._remover is None else self._remover.feed(data)
        if left:
            await self._client.write(left)

    async def end(self, last: bytes = b"", trailers: Sequence[Header] = ()) -> None:
        if self._remover is not None:
            last = self._remover.feed(last) + self._remover.rest()
        await self._client.end(last, trailers)
