"""The life of calls: numbers, requests, ends, refusals, and losses that were disclosed or not."""

from __future__ import annotations

from typing import Any

from conformance.catalog import vector
from conformance.scene import ledger_of, opened
from docket.receipt.model import Evidence
from kit.recordings import Files, Recording, bill

BILL = bill(input=10, output=1)


def begun() -> Recording:
    run = Recording()
    run.start()
    run.note()
    return run


def gap(run: Recording, **types: int) -> None:
    named = {name.replace("_", ".", 1): number for name, number in types.items()}
    run.add("x-docket.ledger-gap", {"lost": {"count": sum(types.values()), "types": named}})


@vector("calls", "two-ends", "failed", "ledger.calls", rules="L-12", comment="A call ends twice.")
def _() -> Files:
    run = opened()
    run.answer(1, BILL)
    return ledger_of(run)


@vector("calls", "answer-and-error", "failed", "ledger.calls", rules="L-12", comment="A call is answered and fails.")
def _() -> Files:
    run = opened()
    run.answer(1, None, error="timeout")
    return ledger_of(run)


@vector(
    "calls",
    "end-before-its-request",
    "failed",
    "ledger.calls",
    rules="L-12",
    comment="The end introduces the call; the request comes after.",
)
def _() -> Files:
    run = begun()
    run.answer(1, BILL)
    run.request(number=1)
    return ledger_of(run)


@vector("calls", "request-twice", "failed", "ledger.calls", rules="L-12", comment="A call is requested twice.")
def _() -> Files:
    run = begun()
    run.request()
    run.request(number=1)
    return ledger_of(run)


@vector(
    "calls",
    "requests-out-of-order",
    "failed",
    "ledger.calls",
    rules="L-12",
    comment="Call 2 is introduced before call 1.",
)
def _() -> Files:
    run = begun()
    run.request(number=2)
    run.request(number=1)
    return ledger_of(run)


@vector(
    "calls",
    "cache-hit-of-a-known-number",
    "failed",
    "ledger.calls",
    rules="L-12",
    comment="A cache hit takes the number of a call.",
)
def _() -> Files:
    run = opened()
    run.add("model.cache_hit", {"call": 1, "origin": 1}, by="boundary")
    return ledger_of(run)


@vector(
    "calls",
    "end-of-a-cache-hit",
    "failed",
    "ledger.calls",
    rules="L-12",
    comment="A cache hit has an end of its own already.",
)
def _() -> Files:
    run = opened()
    run.add("model.cache_hit", {"call": 2, "origin": 1}, by="boundary")
    run.answer(2, BILL)
    return ledger_of(run)


@vector(
    "calls",
    "number-far-ahead",
    "failed",
    "ledger.calls",
    rules="L-12",
    comment="A number that passes over more than a reader keeps.",
)
def _() -> Files:
    run = begun()
    run.request(number=65_538)
    return ledger_of(run)


@vector(
    "calls", "number-as-far-as-may-be", "unfinished", rules="L-12", comment="A number that passes over exactly 65,536."
)
def _() -> Files:
    run = begun()
    run.request(number=65_537)
    return ledger_of(run)


@vector(
    "calls",
    "accept-interleaved",
    "verified",
    rules="L-12 U-5",
    comment="Five calls at once, ended in another order, with refusals between that take no number.",
)
def _() -> Files:
    run = begun()
    for _number in range(5):
        run.request()
        run.add("model.denied", {"code": "rate_limited", "final": False, "count": 2, "retry_after": 1}, by="boundary")
    for number in (3, 1, 5, 2, 4):
        run.answer(number, bill(input=number))
    run.end()
    return run.files()


@vector(
    "calls",
    "accept-cache-hits",
    "verified",
    rules="L-12 F-5",
    comment="Cache hits have numbers, and neither request nor end.",
)
def _() -> Files:
    run = begun()
    run.call()
    run.add("model.cache_hit", {"call": 2, "origin": 1, "saved_usd": "0.0033"}, by="boundary")
    run.calls = 2
    run.call()
    run.end()
    return run.files(cache={"policy": {"max": 1}, "saved_usd": "0.0033"})


@vector(
    "calls",
    "accept-unmetered-ends",
    "verified",
    rules="U-1 F-1",
    comment="An error without usage is no row, and the cost stays exact.",
)
def _() -> Files:
    run = begun()
    run.request()
    run.answer(1, None, error="connect")
    run.call()
    run.end()
    return run.files()


def complete(run: Recording, **evidence: Any) -> Files:
    if evidence:
        run.evidence = Evidence(**evidence)
    run.end()
    return run.files()


@vector(
    "calls",
    "open-at-the-end",
    "failed",
    "calls.open",
    rules="L-13",
    comment="A call without an end in a complete run, nothing disclosed.",
)
def _() -> Files:
    run = opened()
    run.request()
    return complete(run)


@vector(
    "calls",
    "request-missing",
    "failed",
    "calls.open",
    rules="L-13",
    comment="An end without its request, nothing disclosed.",
)
def _() -> Files:
    run = begun()
    run.answer(1, BILL)
    return complete(run)


@vector(
    "calls",
    "number-missing",
    "failed",
    "calls.open",
    rules="L-13",
    comment="Number 1 was never seen, nothing disclosed.",
)
def _() -> Files:
    run = begun()
    run.calls = 1
    run.call()
    return complete(run)


@vector(
    "calls",
    "open-at-the-end-without-receipt",
    "failed",
    "calls.open",
    rules="L-13",
    comment="The same in a sealed ledger without its receipt.",
)
def _() -> Files:
    run = opened()
    run.request()
    run.end()
    return run.ledger_files()


@vector("calls", "lost-end-disclosed", "incomplete", rules="L-13 P-7", comment="A gap event discloses the lost end.")
def _() -> Files:
    run = begun()
    run.request()
    gap(run, model_response=1)
    return complete(run)


@vector(
    "calls", "lost-request-disclosed", "incomplete", rules="L-13 P-7", comment="A gap event discloses the lost request."
)
def _() -> Files:
    run = begun()
    run.answer(1, BILL)
    gap(run, model_request=1)
    return complete(run)


@vector(
    "calls",
    "lost-both-disclosed",
    "incomplete",
    rules="L-13 P-7",
    comment="Request and end are lost, and both disclosed.",
)
def _() -> Files:
    run = begun()
    run.calls = 1
    gap(run, model_request=1, model_error=1)
    run.call()
    return complete(run)


@vector(
    "calls",
    "lost-cache-hit-disclosed",
    "incomplete",
    rules="L-13",
    comment="A number is missing because a cache hit was lost.",
)
def _() -> Files:
    run = begun()
    run.calls = 1
    gap(run, **{"model_cache_hit": 1})
    run.call()
    return complete(run)


@vector(
    "calls",
    "lost-end-disclosed-by-the-receipt",
    "incomplete",
    rules="L-13 R-9",
    comment="The receipt's gaps disclose it.",
)
def _() -> Files:
    run = begun()
    run.request()
    return complete(run, ledger_complete=False, unwritten_events=1, first_failing_seq=3, gaps={"model.response": 1})


@vector(
    "calls",
    "one-more-end-lost-than-disclosed",
    "failed",
    "calls.open",
    rules="L-13",
    comment="Two ends are missing, one is disclosed.",
)
def _() -> Files:
    run = begun()
    run.request()
    run.request()
    gap(run, model_response=1)
    return complete(run)


@vector(
    "calls",
    "one-more-request-lost-than-disclosed",
    "failed",
    "calls.open",
    rules="L-13",
    comment="Two requests are missing, one is disclosed.",
)
def _() -> Files:
    run = begun()
    run.answer(1, BILL)
    run.answer(2, BILL)
    gap(run, model_request=1)
    return complete(run)


@vector(
    "calls", "another-type-disclosed", "failed", "calls.open", rules="L-13", comment="A lost note excuses no lost end."
)
def _() -> Files:
    run = begun()
    run.request()
    gap(run, note=1)
    return complete(run)


@vector(
    "calls",
    "number-missing-half-disclosed",
    "failed",
    "calls.open",
    rules="L-13",
    comment="Request and end of a number are missing, only the end is disclosed.",
)
def _() -> Files:
    run = begun()
    run.calls = 1
    gap(run, model_response=1)
    run.call()
    return complete(run)


@vector(
    "calls",
    "number-missing-refused",
    "incomplete",
    rules="L-13 P-7",
    comment="The request of a call was lost and the call refused for that: its number is missing, no end was ever there.",
)
def _() -> Files:
    run = begun()
    run.calls = 1
    gap(run, model_request=1)
    run.call()
    return complete(run, ledger_complete=False, unwritten_events=1, first_failing_seq=1)


@vector(
    "calls",
    "accept-open-in-an-unfinished-run",
    "unfinished",
    rules="L-13",
    comment="A run that was cut off leaves calls open, here also one without its request and a number never seen.",
)
def _() -> Files:
    run = opened()
    run.request()
    run.answer(3, BILL)
    run.calls = 4
    run.request()
    return run.ledger_files()


@vector(
    "calls",
    "accept-open-in-a-recovered-run",
    "recovered",
    rules="L-13 R-2",
    comment="A recovered receipt over open calls.",
)
def _() -> Files:
    run = opened()
    run.request()
    run.outcome, run.exit = "lost", {}
    return run.files(kind="recovered")


@vector(
    "calls",
    "accept-calls-closed-by-the-doctor",
    "recovered",
    rules="L-4 L-13",
    comment="The doctor closed what was open, at its hold.",
)
def _() -> Files:
    run = opened()
    run.request()
    run.answer(
        2,
        {
            "source": "none",
            "items": [],
            "estimate": {"items": [{"kind": "output", "quantity": 4096}], "method": "hold"},
        },
        error="lost",
    )
    run.outcome, run.exit = "lost", {}
    return run.files(kind="recovered")
