"""The page of docket watch in a real headless Chromium: a live run, a lost server, hostile text, 50,000 events."""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
import socket
import tomllib
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from conformance.catalog import ROOT, VECTORS
from docket.clock import SystemClock
from docket.storage.paths import RUNS
from docket.watch.server import WatchServer
from kit.browser import CHROMIUM, Tab, tab
from kit.growing import GrowingRun
from kit.runs import policy_applied, request, response

TOKEN = "a-token-of-this-test"
EVENTS = "document.querySelectorAll('#events tbody tr').length"
LAST = "Number(document.querySelector('#events tbody tr td')?.textContent ?? -1)"
LONG_TASKS = """
globalThis.longest = 0;
new PerformanceObserver((list) => {
  for (const task of list.getEntries()) longest = Math.max(longest, task.duration);
}).observe({ type: "longtask", buffered: true });
"""
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="SKIP: no chromium")


class Site:
    """The server that the page is of; it can be away for a while."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.port = 0

    async def start(self) -> None:
        listener = socket.create_server(("127.0.0.1", self.port), reuse_port=True)
        self._server = WatchServer(self._root / ".docket", TOKEN, SystemClock(), self._root / "cache")
        self.port = await self._server.start(listener)

    async def stop(self) -> None:
        await self._server.close()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/?token={TOKEN}"


def browsing(root: Path, main: Callable[[Tab, Site], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        site = Site(root)
        await site.start()
        async with tab() as page:
            await page.ask("Network.enable")
            await page.ask("Log.enable")
            await page.ask("Page.addScriptToEvaluateOnNewDocument", source=LONG_TASKS)
            try:
                await main(page, site)
            finally:
                await site.stop()
            asked = [event["request"]["url"] for event in page.events.get("Network.requestWillBeSent", [])]
            foreign = [url for url in asked if not url.startswith((f"http://127.0.0.1:{site.port}/", "data:"))]
            assert foreign == [], "the page asks its own server and nobody else"

    asyncio.run(whole())


def test_a_live_run_is_shown_as_it_grows_and_the_token_leaves_the_address(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path)
    run.append([policy_applied(), request(1)])
    run.attest()

    async def main(page: Tab, site: Site) -> None:
        await page.open(site.address)
        await page.until("document.getElementById('facts').textContent.includes('1, 1 under way')")
        assert await page.evaluate("location.href") == f"http://127.0.0.1:{site.port}/"
        run.append([response(1), request(2)])
        run.attest()
        await page.until("document.getElementById('facts').textContent.includes('2, 1 under way')")
        assert "0.00001 USD booked" in await page.evaluate("document.getElementById('caps').textContent")
        assert await page.evaluate("document.querySelectorAll('#calls tbody tr').length") == 2
        run.end()
        await page.until("document.getElementById('state').textContent.startsWith('completed')")

    browsing(tmp_path, main)


def test_a_lost_server_and_a_reload_in_the_middle_lose_nothing(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path)
    run.grow(20)

    async def main(page: Tab, site: Site) -> None:
        await page.open(site.address)
        await page.until(f"{EVENTS} === 21")
        await site.stop()
        run.grow(20)
        await page.until("document.getElementById('link').textContent.startsWith('reconnecting')", 30)
        assert await page.evaluate(EVENTS) == 21, "what was shown stays"
        await site.start()
        await page.evaluate("dispatchEvent(new Event('online'))")
        await page.until(f"{EVENTS} === 41 && document.getElementById('link').textContent === ''", 30)
        await page.open(f"http://127.0.0.1:{site.port}/")
        await page.until(f"{EVENTS} === 41")
        rows = "[...document.querySelectorAll('#events tbody tr')]"
        seqs = await page.evaluate(f"{rows}.map((row) => Number(row.cells[0].textContent))")
        assert seqs == list(range(40, -1, -1))

    browsing(tmp_path, main)


def test_hostile_text_in_every_field_stays_text(tmp_path: Path) -> None:
    hostile = '<img src=x onerror="globalThis.owned=1"></td><script>globalThis.owned=1</script>'
    run = GrowingRun(tmp_path)
    run.append(
        [
            dataclasses.replace(
                request(1), model=hostile, upstream=hostile, endpoint=hostile, private={"target": hostile}
            ),
            dataclasses.replace(response(1), model=hostile, reason=hostile, finish=hostile),
            run.note(hostile),
        ]
    )
    run.attest()

    async def main(page: Tab, site: Site) -> None:
        await page.open(site.address)
        await page.until(f"{EVENTS} === 4")
        assert await page.evaluate("globalThis.owned ?? 0") == 0
        assert await page.evaluate("document.querySelectorAll('main img, main script').length") == 0
        assert hostile in await page.evaluate("document.getElementById('calls').textContent")

    browsing(tmp_path, main)


@pytest.mark.parametrize(
    "name", ["receipt/*-accept-run-directory", "tail/*-no-receipt-no-end", "checkpoints/*-note-after-the-last"]
)
def test_the_pages_verdict_is_the_verifiers(name: str, tmp_path: Path) -> None:
    (vector,) = VECTORS.glob(name)
    wanted = tomllib.loads((vector / "expect.toml").read_text())
    target = tmp_path / ".docket" / RUNS / "DKT-20261130-0123456789"
    target.parent.mkdir(parents=True)
    shutil.copytree(vector / wanted.get("path", "."), target)
    (tmp_path / ".docket/latest").symlink_to(target)

    async def main(page: Tab, site: Site) -> None:
        await page.open(site.address)
        await page.until("document.getElementById('run').value !== ''")
        await page.evaluate("document.getElementById('verify').click()")
        await page.until("!['', 'reading …'].includes(document.getElementById('verdict').textContent)")
        assert await page.evaluate("document.getElementById('verdict').textContent") == wanted["verdict"]
        failed = await page.evaluate("document.querySelector('#checks td.bad')?.previousSibling.textContent ?? ''")
        assert failed == wanted["check"]

    browsing(tmp_path, main)


AXE = ROOT / ".node-sdks/node_modules/axe-core/axe.min.js"


@pytest.mark.skipif(not AXE.exists(), reason="SKIP: axe-core is not installed: make node-sdks")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_the_page_has_no_finding_of_axe(scheme: str, width: int, tmp_path: Path) -> None:
    run = GrowingRun(tmp_path)
    run.append([policy_applied(), request(1), response(1), request(2)])
    run.end()

    async def main(page: Tab, site: Site) -> None:
        await page.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
        await page.ask("Emulation.setDeviceMetricsOverride", **size)
        await page.open(site.address)
        await page.until(f"{EVENTS} === 6")
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing is cut off sideways"
        await page.evaluate(f"{AXE.read_text()}; 0")
        found = await page.evaluate(
            "axe.run().then((r) => r.violations.map((v) => [v.id, v.nodes.map((n) => n.html)]))"
        )
        assert found == []
        await page.evaluate("document.querySelector('h2').outerHTML = '<img>'")
        again = await page.evaluate("axe.run().then((r) => r.violations.map((v) => v.id))")
        assert "image-alt" in again, "a check that finds nothing wrong has not been tried"

    browsing(tmp_path, main)


def test_fifty_thousand_events_are_taken_without_a_long_task(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path)
    run.append(event for number in range(1, 25_001) for event in (request(number), response(number)))
    run.attest()

    async def main(page: Tab, site: Site) -> None:
        await page.open(site.address)
        await page.until(f"{LAST} === 50000", 60)
        longest = await page.evaluate("longest")
        assert longest < 200, f"a task of {longest} ms"
        await page.evaluate("new Promise((done) => setTimeout(done))")
        await page.evaluate("setTimeout(() => { const end = Date.now() + 300; while (Date.now() < end); })")
        await page.until("longest >= 200")  # a task of that length would have been seen

    browsing(tmp_path, main)
