"""One answer on its way from an upstream to the agent, up to its withheld end and then to its end.

Invariant: expected failures are values; the last bytes, on which clients act, are kept back until ``finish``; whoever
ends a passage early closes the upstream's connection at once.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from docket.boundary.answers.refusals import upstream_failure
from docket.boundary.call.ports import Client, Passing, Upstream
from docket.boundary.call.tee import Tee
from docket.boundary.http1.response import Outgoing
from docket.boundary.http1.wire import ResponseHead, WireError
from docket.clock import Clock
from docket.errors import ClientGoneError, UpstreamError


@dataclass(slots=True)
class Carried:
    """How far an answer came. ``reason`` is None for one that came whole; ``held`` is its withheld last bytes."""

    response: Passing | None = None
    reason: str | None = None
    detail: str | None = None
    held: bytes = b""
    first_byte_us: int | None = None

    @property
    def head(self) -> ResponseHead | None:
        return self.response.head if self.response is not None else None


class Leaving:
    """A block that ends with ClientGoneError when the agent leaves; a cancellation for another reason stays one."""

    __slots__ = ("_among", "_client", "_fired", "_task")

    def __init__(self, client: Client, among: set[Leaving]) -> None:
        """``among`` holds every such block while it runs."""
        self._client = client
        self._among = among
        self._fired = False

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._among.add(self)
        self._client.on_gone(self.leave)

    def leave(self) -> None:
        """End the block, as when the agent leaves."""
        self._fired = True
        self._task.cancel()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        self._client.on_gone(None)
        self._among.discard(self)
        if self._fired and self._task.uncancel() == 0 and kind is asyncio.CancelledError:
            raise ClientGoneError("the agent left while its call was under way") from error


async def carry(
    upstream: Upstream,
    outgoing: Outgoing,
    client: Client,
    tee: Tee,
    clock: Clock,
    since: int,
    among: set[Leaving] | None = None,
) -> Carried:
    """Forward one request and pass its answer on, up to its withheld end. Expected failures are values.

    Whoever calls ``leave`` on what then stands in ``among`` ends it as if the agent had left.
    """
    carried = Carried()
    try:
        with Leaving(client, set() if among is None else among):
            response = carried.response = await upstream.open(outgoing, client.informational)
            carried.first_byte_us = clock.monotonic_us() - since
            tee.begin(response.head)
            client.start(response.head, response.framing)
            data = response.read_ready()
            if not data and not response.ended:
                await client.flush()
                data = await response.read()
            tee.feed(data)
            while not (response.ended or tee.saw_end):
                await client.write(data)
                data = response.read_ready() or await response.read()
                tee.feed(data)
            carried.held += data
            while not response.ended and (data := response.read_ready()):
                tee.feed(data)
                carried.held += data
    except (ClientGoneError, WireError):
        carried.reason = "client-gone"
    except UpstreamError as error:
        carried.reason, carried.detail = error.reason, str(error)
    finally:
        if carried.reason is not None and carried.response is not None:
            carried.response.close()
    return carried


async def finish(carried: Carried, client: Client, family: str, docket: str) -> None:
    """Let the agent see how its call ended, a failure in the error shape of ``family``. Raises ClientGoneError."""
    response = carried.response
    if carried.reason is None and response is not None:
        if response.ended:
            response.close()
            await client.end(carried.held, response.trailers)
        else:
            await _release(carried.held, response, client)
    elif carried.reason == "client-gone" or client.started:
        client.cut()
    else:
        reason = carried.reason or "connect"
        status = 504 if reason == "timeout" else 502
        await client.refuse(upstream_failure(status, reason, carried.detail or "no answer", family, docket))


async def _release(held: bytes, response: Passing, client: Client) -> None:
    """Pass on the withheld end, then whatever the upstream still sends after its terminal event."""
    try:
        if held:
            await client.write(held)
        client.on_gone(response.close)
        while not response.ended:
            data = await response.read()
            if data:
                await client.write(data)
    except UpstreamError:
        client.cut()
        return
    finally:
        client.on_gone(None)
        response.close()
    await client.end(trailers=response.trailers)
