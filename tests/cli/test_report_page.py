"""``docket report --html`` in a real headless Chromium, from a file: its verdicts, its text, and whom it asks."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import subprocess
import sys
import tomllib
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from conformance.catalog import VECTORS
from docket.cli import report
from docket.cli.main import status_of
from kit.browser import CHROMIUM, Tab, tab
from kit.growing import GrowingRun
from kit.runs import policy_applied, request, response

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="SKIP: no chromium")
VERDICT = "document.getElementById('verdict').textContent"
SHOWN = f"!{VERDICT}.startsWith('reading') && !{VERDICT}.startsWith('not verified') && {VERDICT}"
FAILED = "document.querySelector('#checks td.fail')?.previousSibling.textContent ?? ''"
ATTACK = '<img src=x onerror="globalThis.owned=1"></pre></dd><script>globalThis.owned=1</script>'


def browse(path: Path, look: Callable[[Tab], Awaitable[None]]) -> None:
    """Open ``path``, and ``look``; afterwards nothing but the file was asked for, and nothing was refused."""

    async def main() -> None:
        async with tab() as page:
            await page.ask("Network.enable")
            await page.ask("Log.enable")
            await page.open(path.as_uri())
            await page.until(SHOWN)
            await look(page)
            asked = {event["request"]["url"] for event in page.events.get("Network.requestWillBeSent", [])}
            assert asked == {path.as_uri()}
            assert page.events.get("Log.entryAdded", []) == []

    asyncio.run(main())


def written(where: Path, out: Path) -> Path:
    assert status_of(["report", "--html", "--out", str(out), str(where)]) == 0
    return out


@pytest.mark.parametrize(
    "name",
    [
        "receipt/001-accept-run-directory", "receipt/003-accept-bare", "receipt/010-recovered",
        "sessions/001-accept-two-linked", "checkpoints/056-note-after-the-last",
        "receipt/104-changed-signatures-0-value",
    ],
)  # fmt: skip
def test_the_pages_verdict_is_that_of_docket_verify(name: str, tmp_path: Path) -> None:
    wanted = tomllib.loads((VECTORS / name / "expect.toml").read_text())
    page = written(VECTORS / name / wanted.get("path", "."), tmp_path / "report.html")

    async def look(shown: Tab) -> None:
        assert await shown.evaluate(VERDICT) == wanted["verdict"]
        assert await shown.evaluate(FAILED) == wanted["check"]

    browse(page, look)


def test_a_real_run_is_verified_and_its_key_can_be_pinned(tmp_path: Path) -> None:
    docket = [sys.executable, "-m", "docket"]
    subprocess.run([*docket, "demo", "--docket-dir", "d"], cwd=tmp_path, capture_output=True, check=True)
    page = written(tmp_path / "d/latest", tmp_path / "report.html")
    key = json.loads((tmp_path / "d/latest/receipt.json").read_text())["signatures"][0]["key"]

    async def look(shown: Tab) -> None:
        assert await shown.evaluate(VERDICT) == "verified"
        assert "0.05 USD, exact" in await shown.evaluate("document.body.textContent")
        for pin, verdict in (("0" * 64, "failed"), (key, "verified"), ("abc", "verified")):
            await shown.evaluate(
                f"document.getElementById('pin').value = '{pin}';"
                "document.getElementById('pin').dispatchEvent(new Event('change'))"
            )
            await shown.until(SHOWN)
            assert await shown.evaluate(VERDICT) == verdict
        assert "it was not used" in await shown.evaluate("document.getElementById('remarks').textContent")

    browse(page, look)


def test_hostile_text_in_every_field_stays_text_and_a_live_run_says_that_it_lives(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path)
    call = dataclasses.replace(request(1), model=ATTACK, upstream=ATTACK, endpoint=ATTACK, private={"target": ATTACK})
    end = dataclasses.replace(response(1), model=ATTACK, upstream=ATTACK, reason=ATTACK, finish=ATTACK)
    loop = [
        event
        for number in range(2, 9)
        for event in (
            dataclasses.replace(request(number), model=ATTACK), dataclasses.replace(response(number), model=ATTACK),
        )
    ]  # fmt: skip
    run.append([policy_applied(), call, end, *loop, run.note(ATTACK)])
    run.attest()
    page = written(run.path, tmp_path / "report.html")

    async def look(shown: Tab) -> None:
        assert await shown.evaluate("globalThis.owned ?? 0") == 0
        assert await shown.evaluate("document.querySelectorAll('img, main script').length") == 0
        assert await shown.evaluate(VERDICT) == "unfinished"
        text = await shown.evaluate("document.querySelector('main').textContent")
        assert "no receipt: the run goes on" in text
        assert "runaway-loop" in text
        assert ATTACK[:20] in text

    browse(page, look)
    run.release()
    assert "the run died, or was never sealed" in written(run.path, tmp_path / "dead.html").read_text()


def test_a_long_ledger_is_left_out_and_the_page_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "MAX_HELD", 1000)
    vector = VECTORS / "receipt/001-accept-run-directory"
    where = vector / tomllib.loads((vector / "expect.toml").read_text()).get("path", ".")
    page = written(where, tmp_path / "report.html")
    assert "and the ledger is not in this page: only the receipt is." in page.read_text()
    assert 'data-name="ledger.jsonl"' not in page.read_text()

    async def look(shown: Tab) -> None:
        assert await shown.evaluate(VERDICT) == "verified"

    browse(page, look)


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--html", "--json"], "exclude one another"), (["--out", "x"], "--out is for --html"),
     (["--html", "--out", "there"], "cannot write there")],
)  # fmt: skip
def test_a_wrong_call_names_what_is_wrong(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    GrowingRun(tmp_path).end()
    (tmp_path / "there").touch()
    monkeypatch.chdir(tmp_path)
    assert status_of(["report", "latest", *words]) == 2
    assert said in capsys.readouterr().err
