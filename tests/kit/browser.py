"""A real headless Chromium, driven over its DevTools protocol."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--remote-debugging-port=0"]


class Tab:
    """One page of a browser. ``events`` keeps what it told unasked, by method."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self.events: dict[str, list[Any]] = {}

    async def ask(self, method: str, **params: Any) -> Any:
        """Call a method of the protocol and return its result."""
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": params})
        async for message in self._socket:
            answer = json.loads(message.data)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.setdefault(answer.get("method", ""), []).append(answer.get("params"))
        raise AssertionError("the browser went away")

    async def evaluate(self, expression: str) -> Any:
        """Evaluate ``expression`` in the page, await it, and return its value."""
        answer = await self.ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def open(self, url: str) -> None:
        """Go to ``url`` and wait until it has loaded."""
        await self.ask("Page.navigate", url=url)
        await self.evaluate(
            "new Promise((d) => document.readyState === 'complete' ? d(1) : addEventListener('load', d))"
        )

    async def until(self, expression: str, seconds: float = 20) -> Any:
        """Wait until ``expression`` is true in the page, and return its value."""
        look = "new Promise((d) => { const f = () => { const v = (EXPRESSION); v ? d(v) : setTimeout(f, 20); }; f(); })"
        look = look.replace("EXPRESSION", expression)
        return await asyncio.wait_for(self.evaluate(look), seconds)


@asynccontextmanager
async def tab() -> AsyncIterator[Tab]:
    """A browser with one empty page; both are gone afterwards."""
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = await asyncio.create_subprocess_exec(
            CHROMIUM,
            *FLAGS,
            f"--user-data-dir={profile}",
            "about:blank",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        assert browser.stderr is not None
        try:
            found = None
            async for line in browser.stderr:
                if found := re.search(rb"ws://127\.0\.0\.1:(\d+)/", line):
                    break
            assert found is not None, "the browser did not say where it listens"
            drained = asyncio.ensure_future(browser.stderr.read())
            async with aiohttp.ClientSession() as session:
                async with session.get(f"http://127.0.0.1:{found[1].decode()}/json/list") as answer:
                    (page,) = [page for page in await answer.json() if page["type"] == "page"]
                async with session.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=2**27) as socket:
                    opened = Tab(socket)
                    await opened.ask("Page.enable")
                    yield opened
        finally:
            browser.kill()
            await browser.wait()
        await drained
