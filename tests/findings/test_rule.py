"""A call as rules see it."""

from __future__ import annotations

from docket.findings.rule import Call, call_of
from docket.ledger.events import ModelError, ModelRequest, ModelResponse
from kit.scripted import Script


def call(**ended: object) -> Call:
    script = Script().ask("claude", seconds=3, **ended)  # type: ignore[arg-type]
    request, end = (entry.event for entry in script.entries)
    assert isinstance(request, ModelRequest)
    assert isinstance(end, ModelResponse | ModelError)
    return call_of(request, (0, 5), end, script.entries[1])


def test_context_and_output_are_told_apart_whatever_kinds_they_are_of() -> None:
    of = call(fresh=1, read=20, written=300, output=4000)
    assert (of.context, of.output) == (321, 4000)
    assert (of.request_seq, of.end_seq, of.begun_us, of.ended_us) == (0, 1, 5, 3_000_000)


def test_a_partial_figure_and_none_are_not_metered() -> None:
    assert call().metered
    assert not call(source="partial").metered
    assert not call(source="none").metered
    assert not call(billed=False).metered
    assert call(billed=False).items == ()
