"""verify-js/index.html in a real headless Chromium, driven over its DevTools protocol: offline, from a file."""

from __future__ import annotations

import asyncio
import json
import re
import tomllib
from pathlib import Path

import pytest
from tools.verify_page import page

from conformance.catalog import ROOT, VECTORS
from kit.browser import CHROMIUM, Tab, tab

PAGE = ROOT / "verify-js/index.html"
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
    "checkpoints/056-note-after-the-last",
    "receipt/104-changed-signatures-0-value",
    "receipt/010-recovered",
    "tail/009-no-receipt-no-end",
    "usage/046-drill-unsaid",
)


async def judge(page: Tab, files: list[Path]) -> list[str]:
    """Give ``files`` to a fresh page; its verdict and the first failing check."""
    await page.open(PAGE.as_uri())
    root = await page.ask("DOM.getDocument")
    node = await page.ask("DOM.querySelector", nodeId=root["root"]["nodeId"], selector="#files")
    await page.ask("DOM.setFileInputFiles", files=[str(file) for file in files], nodeId=node["nodeId"])
    return json.loads(await page.evaluate(SHOWN))


def test_the_page_is_generated_and_reaches_nothing() -> None:
    assert PAGE.read_text() == page()
    assert "default-src 'none'" in PAGE.read_text()
    assert not re.search(r"https?://|fetch\(|XMLHttpRequest|innerHTML", PAGE.read_text())


@pytest.mark.skipif(CHROMIUM is None, reason="SKIP: no chromium")
def test_a_browser_gives_the_verdicts_of_the_vectors() -> None:
    async def main() -> dict[str, tuple[list[str], list[str]]]:
        differing = {}
        async with tab() as opened:
            for name in SAMPLE:
                wanted = tomllib.loads((VECTORS / name / "expect.toml").read_text())
                place = VECTORS / name / wanted.get("path", ".")
                files = [place] if place.is_file() else [each for each in place.iterdir() if each.is_file()]
                shown = await asyncio.wait_for(judge(opened, files), 60)
                if shown != [wanted["verdict"], wanted["check"]]:
                    differing[name] = (shown, [wanted["verdict"], wanted["check"]])
        return differing

    assert asyncio.run(main()) == {}
