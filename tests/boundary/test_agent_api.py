"""What an agent says of itself: whatever it is, the event fits the format and the run goes on."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.boundary.agent_api import parse_event
from docket.errors import UsageError
from docket.ledger.chain import Chain
from docket.ledger.codec import draft
from docket.ledger.events import Event, Note, ToolCall
from docket.primitives.canonical import decode_object
from docket.primitives.sealed import seal
from kit.boundary import Answered, Record, run, stage

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


def recorded(raw: bytes) -> dict[str, object]:
    """The event as it stands in a ledger; reading it back is strict."""
    _, line, _ = Chain().extend(draft(parse_event(raw)), ts="2026-11-30T12:00:00.000000Z", elapsed_us=0, entropy=bytes)
    document = decode_object(line.rstrip(b"\n"))
    seal(document)
    return document


@given(st.dictionaries(st.text() | st.sampled_from(["private", "salt", "public", "by"]), JSON))
def test_whatever_an_agent_says_makes_an_event_of_the_format_by_the_agent(members: dict[str, object]):
    try:
        raw = orjson.dumps(members | {"type": "tool.call"})
    except (orjson.JSONEncodeError, TypeError):
        return  # a text that no JSON can hold never arrives
    event = recorded(raw)
    assert event["by"] == "agent"
    assert event["data"] == {}


@pytest.mark.parametrize(
    "said",
    ['{"cost": 1.5}', '{"n": 9007199254740993}', '{"\\u00e9": 1}', '{"deep": ' + "[" * 40 + "]" * 40 + "}"],
    ids=["fraction", "integer beyond 2^53", "name beyond ASCII", "deep"],
)
def test_what_has_no_canonical_form_is_kept_as_its_bytes(said: str):
    raw = ('{"type": "note", ' + said[1:]).encode()
    kept = recorded(raw)["private"]["said"]["value"]  # type: ignore[index]
    assert base64.b64decode(kept["base64"]) == raw


def test_a_member_called_private_is_data_like_any_other():
    event = parse_event(json.dumps({"type": "note", "private": {"x": 1}}).encode())  # noqa: TID251 (an agent's own)
    assert event == Note(by="agent", private={"said": {"private": {"x": 1}}})


def test_an_event_that_says_nothing_more_has_no_private_members():
    assert parse_event(b'{"type": "tool.call"}') == ToolCall(by="agent")


@pytest.mark.parametrize(
    "raw", [b"[", b"[]", b"{}", b'{"type": 1}', b'{"type": ["note"]}', b'{"type": "model.response"}']
)
def test_what_is_no_event_of_an_agent_is_named(raw: bytes):
    with pytest.raises(UsageError):
        parse_event(raw)


class HeldRecord(Record):
    """Makes events durable, or loses them, when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self._held: list[tuple[asyncio.Future[object], object]] = []

    def submit(self, event: Event) -> asyncio.Future[object]:
        held: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._held.append((held, self.entry(event)))
        self.events.append(event)
        self._news.set()
        return held

    def release(self, *, lost: bool) -> None:
        for held, entry in self._held:
            held.set_result(None if lost else entry)
        self._held.clear()


KEY = (("Idempotency-Key", "7f1c"),)
BODY = b'{"type": "note", "text": "begun"}'


def answered(answer: Answered) -> dict[str, Any]:
    return dict(orjson.loads(answer.body))


def test_the_same_event_under_the_same_key_is_recorded_once_and_answered_alike():
    async def scene() -> None:
        async with stage("http://127.0.0.1:9") as on:
            first = await on.call("/events", BODY, upstream="docket", headers=KEY)
            again = await on.call("/events", BODY, upstream="docket", headers=(("Idempotency-Key", '"7f1c"'),))
            other = await on.call("/events", BODY, upstream="docket", headers=(("Idempotency-Key", "8a"),))
            assert answered(first) == {"recorded": True, "seq": 0}
            assert answered(again) == {"recorded": True, "seq": 0, "replayed": True}
            assert answered(other) == {"recorded": True, "seq": 1}
            assert len(on.record.of(Note)) == 2

    run(scene())


def test_another_body_under_a_key_is_a_conflict_and_leaves_no_event():
    async def scene() -> None:
        async with stage("http://127.0.0.1:9") as on:
            await on.call("/events", BODY, upstream="docket", headers=KEY)
            other = await on.call("/events", BODY + b" ", upstream="docket", headers=KEY)
            assert (other.status, answered(other)["error"]["code"]) == (409, "idempotency_conflict")
            assert len(on.record.of(Note)) == 1

    run(scene())


def test_fifty_at_once_make_one_event_and_all_learn_its_number():
    record = HeldRecord()

    async def scene() -> None:
        async with stage("http://127.0.0.1:9", record=record) as on, asyncio.TaskGroup() as tasks:
            calls = [tasks.create_task(on.call("/events", BODY, upstream="docket", headers=KEY)) for _ in range(50)]
            await record.until(lambda it: it.events)
            different = await on.call("/events", b'{"type": "note"}', upstream="docket", headers=KEY)
            assert different.status == 409  # told at once: it waits for nothing
            record.release(lost=False)
            answers = [answered(await call) for call in calls]
            assert len(record.events) == 1
            assert all(each["seq"] == 0 for each in answers)
            assert sum("replayed" in each for each in answers) == 49

    run(scene())


def test_a_lost_event_is_said_to_be_lost_to_all_who_wait_and_may_be_sent_again():
    record = HeldRecord()

    async def scene() -> None:
        async with stage("http://127.0.0.1:9", record=record) as on, asyncio.TaskGroup() as tasks:
            calls = [tasks.create_task(on.call("/events", BODY, upstream="docket", headers=KEY)) for _ in range(3)]
            await record.until(lambda it: it.events)
            record.release(lost=True)
            for call in calls:
                answer = await call
                assert (answer.status, answered(answer)["error"]["code"]) == (503, "evidence_broken")
            tries = len(record.events)
            again = tasks.create_task(on.call("/events", BODY, upstream="docket", headers=KEY))
            await record.until(lambda it: len(it.events) > tries)
            record.release(lost=False)
            assert answered(await again) == {"recorded": True, "seq": tries}

    run(scene())


def test_a_sender_that_leaves_before_the_answer_has_its_event_under_its_key():
    record = HeldRecord()

    async def scene() -> None:
        async with stage("http://127.0.0.1:9", record=record) as on:
            _, writer = await on.connect()
            head = b"POST %b/docket/events HTTP/1.1\r\nHost: x\r\nIdempotency-Key: 7f1c\r\nContent-Length: %d\r\n\r\n"
            writer.write(head % (on.prefix, len(BODY)) + BODY)
            await record.until(lambda it: it.events)
            writer.transport.abort()
            record.release(lost=False)
            again = await on.call("/events", BODY, upstream="docket", headers=KEY)
            assert answered(again) == {"recorded": True, "seq": 0, "replayed": True}

    run(scene())


@pytest.mark.parametrize(
    "headers",
    [
        (("Idempotency-Key", ""),),
        (("Idempotency-Key", "k" * 256),),
        (("Idempotency-Key", "a\tb"),),
        (("Idempotency-Key", "a"), ("Idempotency-Key", "a")),
    ],
    ids=["empty", "too long", "a control character", "two"],
)
def test_what_is_no_key_is_refused_by_name(headers: tuple[tuple[str, str], ...]):
    async def scene() -> None:
        async with stage("http://127.0.0.1:9") as on:
            answer = await on.call("/events", BODY, upstream="docket", headers=headers)
            assert (answer.status, answered(answer)["error"]["code"]) == (400, "bad_event")
            assert "Idempotency-Key" in answered(answer)["error"]["message"]
            assert on.record.of(Note) == []

    run(scene())


def test_the_key_itself_is_not_on_the_record():
    async def scene() -> None:
        async with stage("http://127.0.0.1:9") as on:
            await on.call("/events", BODY, upstream="docket", headers=(("Idempotency-Key", "sk-secret-1"),))
            assert "sk-secret-1" not in repr(on.record.events)

    run(scene())
