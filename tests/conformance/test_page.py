"""verify-js/index.html in a real headless Chromium, driven over its DevTools protocol: offline, from a file."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tools.verify_page import page

from conformance.catalog import ROOT, VECTORS

PAGE = ROOT / "verify-js/index.html"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SHOWN = """new Promise((done) => {
  const look = () => {
    const text = document.getElementById("verdict").textContent;
    if (text === "" || text.startsWith("reading")) return setTimeout(look, 10);
    const failed = document.querySelector("td.fail");
    done(JSON.stringify([text, failed ? failed.previousSibling.textContent : ""]));
  };
  look();
})"""
SAMPLE = (
    "receipt/001-accept-run-directory",
    "receipt/002-accept-with-operator",
    "receipt/003-accept-bare",
    "sessions/001-accept-two-linked",
    "proof/001-accept-one-call",
    "documents/001-nothing",
    "canonical/034-lone-surrogate-escaped",
    "canonical/037-bad-utf-8",
    "checkpoints/043-note-after-the-last",
    "receipt/095-changed-signatures-0-value",
    "receipt/010-recovered",
    "tail/009-no-receipt-no-end",
    "usage/046-drill-unsaid",
)


class Tab:
    """One page of a browser."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0

    async def ask(self, method: str, **params: Any) -> Any:
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": params})
        async for message in self._socket:
            answer = json.loads(message.data)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
        raise AssertionError("the browser went away")

    async def judge(self, files: list[Path]) -> list[str]:
        """Give ``files`` to a fresh page; its verdict and the first failing check."""
        await self.ask("Page.navigate", url=PAGE.as_uri())
        await self.evaluate(
            "new Promise((d) => document.readyState === 'complete' ? d(1) : addEventListener('load', d))"
        )
        root = await self.ask("DOM.getDocument")
        node = await self.ask("DOM.querySelector", nodeId=root["root"]["nodeId"], selector="#files")
        await self.ask("DOM.setFileInputFiles", files=[str(file) for file in files], nodeId=node["nodeId"])
        return json.loads(await self.evaluate(SHOWN))

    async def evaluate(self, expression: str) -> Any:
        answer = await self.ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        return answer["result"].get("value")


def test_the_page_is_generated_and_reaches_nothing() -> None:
    assert PAGE.read_text() == page()
    assert "default-src 'none'" in PAGE.read_text()
    assert not re.search(r"https?://|fetch\(|XMLHttpRequest|innerHTML", PAGE.read_text())


@pytest.mark.skipif(CHROMIUM is None, reason="SKIP: no chromium")
def test_a_browser_gives_the_verdicts_of_the_vectors() -> None:
    async def main(profile: str) -> dict[str, tuple[list[str], list[str]]]:
        assert CHROMIUM is not None
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
        flags += [f"--user-data-dir={profile}", "--no-first-run", "--disable-background-networking", "about:blank"]
        browser = await asyncio.create_subprocess_exec(
            CHROMIUM, *flags, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
        )
        differing = {}
        try:
            assert browser.stderr is not None
            async for line in browser.stderr:
                if found := re.search(rb"ws://127\.0\.0\.1:(\d+)/", line):
                    break
            drained = asyncio.ensure_future(browser.stderr.read())
            base = f"http://127.0.0.1:{found[1].decode()}"
            async with aiohttp.ClientSession() as session:
                async with session.get(f"{base}/json/list") as answer:
                    tabs = [tab for tab in await answer.json() if tab["type"] == "page"]
                async with session.ws_connect(tabs[0]["webSocketDebuggerUrl"], max_msg_size=2**26) as socket:
                    tab = Tab(socket)
                    await tab.ask("Page.enable")
                    for name in SAMPLE:
                        wanted = tomllib.loads((VECTORS / name / "expect.toml").read_text())
                        place = VECTORS / name / wanted.get("path", ".")
                        files = [place] if place.is_file() else [each for each in place.iterdir() if each.is_file()]
                        shown = await asyncio.wait_for(tab.judge(files), 60)
                        if shown != [wanted["verdict"], wanted["check"]]:
                            differing[name] = (shown, [wanted["verdict"], wanted["check"]])
        finally:
            browser.kill()
            await browser.wait()
        await drained
        return differing

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        assert asyncio.run(main(profile)) == {}
