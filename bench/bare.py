"""The yardstick: a bare reverse proxy on aiohttp that records nothing. ``bare.py UPSTREAM_PORT`` prints its port."""

from __future__ import annotations

import asyncio
import sys

from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector, web

HOP = {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "content-length", "host"}
BACKLOG = 1024


class Proxy:
    """Passes requests to one upstream and answers back as they come."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._session: ClientSession | None = None

    async def session(self, _app: web.Application) -> None:
        self._session = ClientSession(
            connector=TCPConnector(limit=0),
            auto_decompress=False,
            cookie_jar=DummyCookieJar(),
            timeout=ClientTimeout(total=None),
        )

    async def close(self, _app: web.Application) -> None:
        if self._session is not None:
            await self._session.close()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        assert self._session is not None
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in HOP]
        url = self._upstream + request.raw_path
        body = await request.read()
        async with self._session.request(
            request.method, url, headers=headers, data=body or None, allow_redirects=False
        ) as answer:
            response = web.StreamResponse(status=answer.status, reason=answer.reason)
            response.headers.extend((name, value) for name, value in answer.headers.items() if name.lower() not in HOP)
            response.content_length = answer.content_length
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response


async def main(port: str) -> None:
    proxy = Proxy(f"http://127.0.0.1:{port}")
    app = web.Application(client_max_size=2**26)
    app.on_startup.append(proxy.session)
    app.on_cleanup.append(proxy.close)
    app.router.add_route("*", "/{tail:.*}", proxy.handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=BACKLOG).start()
    sys.stdout.write(f"{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


asyncio.run(main(sys.argv[1]))
