"""``docket.Session`` against a boundary on a real socket: what it says is on the record, once and in order."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

import docket
from docket.client.outbox import Refusal
from docket.errors import ProcessError, UsageError
from docket.ledger.events import Note, ToolCall, ToolResult
from docket.primitives.canonical import decode_object
from docket.storage.documents import documents_at
from docket.verify.verifier import verify
from kit.boundary import Record, run, stage


def said(record: Record) -> list[object]:
    return [event.private["said"] for event in record.events]


def test_what_a_program_says_is_on_the_record_in_order_as_its_own_word():
    async def scene() -> None:
        async with stage("http://127.0.0.1:9") as on:

            def program() -> None:
                with docket.Session(on.boundary.events_url) as session:
                    session.tool_call("search", id="1", arguments={"q": "tides"})
                    session.tool_result("search", id="1", is_error=True)
                    session.note("nothing of this year")

            await asyncio.to_thread(program)
            assert [type(event) for event in on.record.events] == [ToolCall, ToolResult, Note]
            assert {event.by for event in on.record.events} == {"agent"}
            assert said(on.record) == [
                {"name": "search", "id": "1", "arguments": {"q": "tides"}},
                {"name": "search", "id": "1", "is_error": True},
                {"text": "nothing of this year"},
            ]

    run(scene())


def test_the_address_is_that_of_the_run_around_it(monkeypatch: pytest.MonkeyPatch):
    async def scene() -> None:
        async with stage("http://127.0.0.1:9") as on:
            monkeypatch.setenv("DOCKET_EVENTS_URL", on.boundary.events_url)

            def program() -> None:
                with docket.Session() as session:
                    assert session.attached
                    session.note("here")
                    assert session.flush(10)

            await asyncio.to_thread(program)
            assert said(on.record) == [{"text": "here"}]

    run(scene())


def test_outside_a_run_a_session_takes_everything_and_sends_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("DOCKET_EVENTS_URL", raising=False)
    with docket.Session() as session:
        session.note("nobody listens")
        assert not session.attached
        assert session.flush()


def test_a_refusal_is_told_and_the_next_event_goes_on():
    refused: list[Refusal] = []

    async def scene() -> None:
        async with stage("http://127.0.0.1:9") as on:

            def program() -> None:
                with docket.Session(on.boundary.events_url + "/elsewhere", on_refused=refused.append) as session:
                    session.note("one")
                    session.note("two")

            await asyncio.to_thread(program)
            assert said(on.record) == []

    run(scene())
    assert [each.status for each in refused] == [404, 404]


def test_a_boundary_that_was_away_gets_what_waits_when_it_is_back(tmp_path: Path):
    async def scene() -> None:
        nowhere = "http://127.0.0.1:9/r/token/docket/events"
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")

            def away() -> None:
                session = docket.Session(nowhere, outbox=tmp_path / "outbox")
                session.note("said while nobody was there")
                assert not session.flush(0.05)
                session._outbox.close(0.05)  # type: ignore[union-attr]

            await asyncio.to_thread(away)
            assert not caught
        async with stage("http://127.0.0.1:9") as on:

            def back() -> None:
                with docket.Session(on.boundary.events_url, outbox=tmp_path / "outbox") as session:
                    session.note("and after")

            await asyncio.to_thread(back)
            assert said(on.record) == [{"text": "said while nobody was there"}, {"text": "and after"}]

    run(scene())


def test_what_is_not_recorded_at_the_end_is_counted_aloud(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("docket.client.session.CLOSE_SECONDS", 0.05)
    session = docket.Session("http://127.0.0.1:9/r/token/docket/events")
    session.note("lost")
    with pytest.warns(RuntimeWarning, match="1 events are not recorded"):
        session.close()


@pytest.mark.parametrize("url", ["127.0.0.1:9", "ftp://h/x", "http://", "http://h:port/x"])
def test_what_is_no_address_is_named(url: str):
    with pytest.raises(UsageError, match="begins with http"):
        docket.Session(url)


def test_what_is_no_json_or_too_long_is_refused_where_it_is_said():
    session = docket.Session("http://127.0.0.1:9/r/token/docket/events")
    with pytest.raises(UsageError, match="is JSON"):
        session.note("x", what=object())
    with pytest.raises(UsageError, match="at most 65536 bytes"):
        session.note("x" * 70_000)


def test_another_name_of_the_package_is_still_unknown():
    with pytest.raises(AttributeError, match="no attribute 'Sesion'"):
        docket.Sesion  # noqa: B018


def test_a_session_that_stands_alone_leaves_a_sealed_run_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("DOCKET_EVENTS_URL", raising=False)
    with docket.Session(record=tmp_path / ".docket") as session:
        session.note("nobody calls a model here")
        session.tool_call("search", arguments={"q": "tides"})
        number = session.number
    run = tmp_path / ".docket" / "runs" / number
    report = verify(documents_at(run))
    assert str(report.verdict) == "verified"
    lines = [decode_object(line) for line in (run / "ledger.jsonl").read_bytes().splitlines()]
    kinds = [line["type"] for line in lines if line["by"] == "agent"]
    assert kinds == ["note", "tool.call"]
    receipt: Any = decode_object((run / "receipt.json").read_bytes().rstrip(b"\n"))
    assert (receipt["totals"]["calls"], receipt["session"]["outcome"]) == (0, "completed")


def test_a_program_that_dies_in_a_session_of_its_own_leaves_a_sealed_run_too(tmp_path: Path):
    program = (
        "import os, pathlib, docket\n"
        "session = docket.Session(record=pathlib.Path('.docket'))\n"
        "session.note('begun')\n"
        "session.flush(20)\n"
        "print(session.number, flush=True)\n"
        "os._exit(9)\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DOCKET_")}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 9, done.stderr
    receipt = tmp_path / ".docket/runs" / done.stdout.strip() / "receipt.json"
    deadline = threading.Event()
    for _ in range(600):
        if receipt.exists():
            break
        deadline.wait(0.05)
    assert str(verify(documents_at(receipt.parent)).verdict) == "verified"


def test_a_record_that_cannot_be_begun_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("DOCKET_EVENTS_URL", raising=False)
    (tmp_path / "file").write_text("")
    with pytest.raises(ProcessError, match=r"cannot be begun: docket: .*cannot make the run directory"):
        docket.Session(record=tmp_path / "file")


def test_inside_a_run_no_other_one_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DOCKET_EVENTS_URL", "http://127.0.0.1:9/r/token/docket/events")
    session = docket.Session(record=tmp_path / ".docket")
    assert session.url == "http://127.0.0.1:9/r/token/docket/events"
    assert not (tmp_path / ".docket").exists()
