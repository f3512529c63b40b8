from __future__ import annotations

import io
import signal
from collections.abc import Callable
from typing import Any, cast

import pytest

from docket.errors import LedgerWriteError
from docket.ledger.events import CapExceeded
from docket.policy.model import Policy
from docket.policy.parse import parse
from docket.supervisor.announce import Announcer
from docket.supervisor.lifecycle import Stop
from docket.supervisor.run_stop import Stopping

BREACH = CapExceeded(cap="max_usd", limit="1", observed="1.2")


class GuardianSpy:
    """Remembers what it was asked to stop with."""

    def __init__(self) -> None:
        self.stops: list[float] = []

    def stop(self, grace_seconds: float) -> None:
        self.stops.append(grace_seconds)


def stopping(
    policy: Policy | None = None, cut_streams: Callable[[str], None] = lambda _why: None
) -> tuple[Stopping, GuardianSpy, io.StringIO]:
    said, guardian = io.StringIO(), GuardianSpy()
    announcer = Announcer(quiet=False, stream=said)
    return Stopping(policy or Policy(), cast(Any, guardian), announcer, cut_streams), guardian, said


def test_a_breach_stops_the_tree_after_the_grace_period_of_the_policy():
    ends, guardian, said = stopping(parse("[caps]\ngrace_seconds = 3\n"))
    ends.breached(BREACH)
    assert (ends.reason, guardian.stops) == (Stop.CAP, [3.0])
    assert "max_usd reached: 1.2 of 1; stopping the agent" in said.getvalue()


def test_under_deny_a_breach_stops_nothing_and_says_that_calls_are_refused():
    ends, guardian, said = stopping(parse('[caps]\non_breach = "deny"\n'))
    ends.breached(BREACH)
    assert (ends.reason, guardian.stops) == (None, [])
    assert "further calls are refused" in said.getvalue()


def test_a_full_ledger_stops_the_run_even_under_deny():
    ends, guardian, _ = stopping(parse('[caps]\non_breach = "deny"\n'))
    ends.full(CapExceeded(cap="max_events", limit="16", observed="16"))
    assert (ends.reason, len(guardian.stops)) == (Stop.CAP, 1)


@pytest.mark.parametrize("wanted", [True, False])
def test_streams_are_cut_at_a_breach_only_where_the_policy_says_so(wanted: bool):
    cuts: list[str] = []
    ends, _, _ = stopping(parse(f"[caps]\ncut_streams = {str(wanted).lower()}\n"), cuts.append)
    ends.breached(BREACH)
    assert cuts == ["cut by docket: a cap was reached"] * wanted


def test_the_first_reason_stays_and_the_agent_is_stopped_once():
    ends, guardian, _ = stopping()
    ends.asked(signal.SIGTERM)
    ends.breached(BREACH)
    ends.evidence_broke(LedgerWriteError("no space"))
    assert ends.reason is Stop.SIGNAL
    assert guardian.stops == []  # the relay has forwarded the signal itself


def test_a_broken_record_is_named_to_the_operator():
    ends, guardian, said = stopping()
    ends.evidence_broke(LedgerWriteError("no space left on device"))
    assert (ends.reason, len(guardian.stops)) == (Stop.EVIDENCE, 1)
    assert "no space left on device" in said.getvalue()


def test_a_fault_of_docket_names_its_type_and_never_the_text_that_may_quote_a_request():
    ends, _, said = stopping()
    ends.fault(ValueError("Bearer sk-very-secret"))
    assert ends.reason is Stop.INTERNAL
    assert "ValueError" in said.getvalue()
    assert "secret" not in said.getvalue()


def test_an_event_lost_under_continue_and_under_refuse_is_said_with_its_consequence():
    for mode, consequence in (("continue", "goes on without it"), ("refuse", "no model call is forwarded")):
        ends, guardian, said = stopping(parse(f'[resilience]\non_write_failure = "{mode}"\n'))
        ends.evidence_lost()
        assert consequence in said.getvalue()
        assert guardian.stops == []
