"""One answer on its way from an upstream to the agent by HTTP: up to its withheld end, and then to its end.

Invariant: expected failures are values; the last bytes, on which clients act, are withheld until ``finish``; an answer
that is given up closes the upstream's connection at once.
"""

from __future__ import annotations

from docket.boundary.answers.refusals import upstream_failure
from docket.boundary.call.desk import Desk, UnderWay
from docket.boundary.call.open_call import Arrived, UntilGone, reason_of
from docket.boundary.call.ports import Client, Upstream, UpstreamAnswer
from docket.boundary.call.tee import Tee
from docket.boundary.http1.headers import text
from docket.boundary.http1.response import Outgoing
from docket.boundary.http1.wire import WireError
from docket.control.breaker import Ended
from docket.errors import ClientGoneError, UpstreamError
from docket.ledger.events import EndReason
from docket.primitives.canonical import Json

GONE: EndReason = "client-gone"


class AnswerRelay:
    """Carries one answer; the HTTP carrier of an open call, and of what is no call."""

    __slots__ = (
        "_client",
        "_cut",
        "_desk",
        "_leave",
        "_response",
        "_tee",
        "_withheld",
        "body",
        "detail",
        "first_byte_at",
        "reason",
    )

    def __init__(self, desk: Desk, client: Client, tee: Tee) -> None:
        self._desk = desk
        self._client = client
        self._tee = tee
        self._response: UpstreamAnswer | None = None
        self._withheld = b""
        self._cut: str | None = None
        self.first_byte_at: int | None = None
        """When the head came, in microseconds on the monotonic clock."""
        self.reason: EndReason | None = GONE
        """Why the answer is not whole; None once it is."""
        self.detail: str | None = None
        self.body: Json = None
        """What stands for a recorded copy of the answer's body."""

    @property
    def status(self) -> int | None:
        """The status of the answer; None where no head came."""
        return self._response.head.status if self._response is not None else None

    async def carry(self, upstream: Upstream, outgoing: Outgoing, under_way: UnderWay | None = None) -> None:
        """Forward the request and pass its answer on, up to its withheld end; ``under_way`` may cut it meanwhile."""
        client, tee = self._client, self._tee
        until = UntilGone(client)
        if under_way is not None:
            self._leave = until.leave
            under_way.add(self)
        try:
            with until:
                response = self._response = await upstream.open(outgoing, client.informational)
                self.first_byte_at = self._desk.clock.monotonic_us()
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
                while not response.ended and (more := response.read_ready()):
                    tee.feed(more)
                    data += more
                self._withheld, self.reason = data, None
        except (ClientGoneError, WireError):
            if self._cut is not None:
                self.reason, self.detail = "truncated", self._cut
        except UpstreamError as error:
            self.reason, self.detail = error.reason, str(error)
        finally:
            if under_way is not None:
                under_way.discard(self)
            if self.reason is not None and self._response is not None:
                self._response.close()

    def cut(self, why: str) -> None:
        """End the answer now, for a reason of docket's own. Does not yield."""
        self._cut = why
        self._leave()

    def arrived(self) -> Arrived:
        """Return what arrived so far. Does not yield."""
        tee, seen = self._tee, self._tee.finish(clean=self.reason is None)
        private: dict[str, Json] = {}
        if self.body is not None:
            private["body"] = self.body
        if self.detail:
            private["detail"] = self.detail
        error_type = seen.error_type if seen is not None else None
        if self._response is None:
            return Arrived(Ended(self.reason or "status", None, error_type), seen, None, None, private)
        head = self._response.head
        private["response_sha256"] = tee.sha256
        reason = self.reason or (reason_of(seen) if 200 <= head.status < 300 else "status")
        ended = Ended(reason, head.status, error_type, b"retry-after" in head.named)
        named = None
        if b"request-id" in head.named or b"x-request-id" in head.named:
            own = head.first(b"request-id") if b"request-id" in head.named else None
            named = text(own or head.first(b"x-request-id"))
        return Arrived(ended, seen, tee.size, self.first_byte_at, private, named)

    async def finish(self, family: str) -> None:
        """Let the agent see how its call ended, a failure in the error shape of ``family``. Raises ClientGoneError."""
        client, response = self._client, self._response
        if self.reason is None and response is not None:
            if not response.ended:
                await self._pass_on_the_rest(response)
                return
            response.close()
            await client.end(self._withheld, response.trailers)
        elif self.reason == GONE or client.started:
            client.cut()
        else:
            reason = self.reason or "connect"
            status = 504 if reason == "timeout" else 502
            message = self.detail or "no answer"
            await client.refuse(upstream_failure(status, reason, message, family, self._desk.number))

    async def _pass_on_the_rest(self, response: UpstreamAnswer) -> None:
        """Pass on the withheld end, then whatever the upstream still sends after its terminal event."""
        client = self._client
        try:
            if self._withheld:
                await client.write(self._withheld)
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
