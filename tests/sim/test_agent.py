"""The reference agent against a script of answers; its clock is a list of waits."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.sim.agent import Agent, Answer, Backoff, Settings

OK = Answer(status=200)
BUSY = Answer(status=429, retry_after="7", text='{"error":{"type":"docket_policy_denied"}}')
DOWN = Answer(status=502)
NEVER = Answer(status=400, final=True, text='{"error":{"type":"docket_policy_denied"}}')


def play(mode: str, script: list[Answer], calls: int = 2) -> tuple[int, Agent, list[float], list[str]]:
    waits: list[float] = []
    notes: list[str] = []

    def post(url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        if url == "http://127.0.0.1:1/events":
            notes.append(body.decode())
            return OK
        return script.pop(0)

    environ = {
        "DOCKET_AGENT_MODE": mode,
        "DOCKET_AGENT_CALLS": str(calls),
        "OPENAI_BASE_URL": "http://127.0.0.1:1/v1",
        "DOCKET_EVENTS_URL": "http://127.0.0.1:1/events",
    }
    agent = Agent(Settings.of(environ), post, waits.append)
    return agent.run(), agent, waits, notes


def test_bounded_stops_at_the_first_error() -> None:
    assert play("bounded", [OK, OK])[0] == 0
    status, agent, waits, _ = play("bounded", [DOWN])
    assert (status, waits, agent.count.failed) == (1, [], 1)


def test_runaway_goes_on_whatever_it_is_told() -> None:
    status, agent, waits, _ = play("runaway", [OK, NEVER, DOWN, OK], calls=4)
    assert (status, waits) == (0, [])
    assert (agent.count.sent, agent.count.ok, agent.count.refused, agent.count.failed) == (4, 2, 1, 1)


def test_backoff_honours_seconds_and_says_so_in_the_ledger() -> None:
    status, agent, waits, notes = play("backoff", [BUSY, DOWN, OK, OK])
    assert status == 0
    assert waits[0] == 7.0
    assert waits[1] <= 1.0
    assert agent.count.sent == 4
    assert "429, hint 7, waiting 7.000 s" in notes[0]
    assert "502, no hint" in notes[1]


def test_backoff_stops_at_a_final_refusal() -> None:
    status, agent, waits, _ = play("backoff", [NEVER])
    assert (status, waits, agent.count.sent) == (1, [], 1)


def test_backoff_ends_even_where_the_outage_does_not() -> None:
    assert play("backoff", [DOWN] * 100)[0] == 1


@given(st.integers(1, 60), st.integers(), st.sampled_from([None, "Wed, 21 Oct 2026 07:28:00 GMT", "-3", "1.5"]))
def test_without_seconds_the_wait_is_full_jitter_under_a_doubling_cap(n: int, seed: int, hint: str | None) -> None:
    wait = Backoff(random.Random(seed), max_seconds=30).wait_seconds(n, hint)
    assert 0 <= wait <= min(30, 0.5 * 2 ** (n - 1))


@given(st.integers(1, 60), st.integers(), st.integers(0, 10_000))
def test_never_sooner_than_the_hint(n: int, seed: int, hint: int) -> None:
    assert Backoff(random.Random(seed), max_seconds=30).wait_seconds(n, str(hint)) >= hint


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"DOCKET_AGENT_MODE": "angry"}, "one of bounded, runaway, backoff"),
        ({}, "OPENAI_BASE_URL"),
        ({"OPENAI_BASE_URL": "http://x/v1", "DOCKET_AGENT_CALLS": "many"}, "whole number"),
        ({"OPENAI_BASE_URL": "http://x/v1", "DOCKET_AGENT_MAX_SLEEP": "1.x"}, "number of seconds"),
    ],
)
def test_bad_settings_name_the_variable(environ: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Settings.of(environ)
