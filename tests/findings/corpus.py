"""Scripted runs with what is to be found in each, worked out by hand from prices and counts; most find nothing.

A call of ``ask()`` to gpt-4o costs 0.00425 USD (500 x 2.5 + 300 x 10 per million), one to claude 0.006.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from docket.findings.model import Impact
from docket.ledger.events import FsChange, ProcOrphan
from docket.primitives.money import Usd
from kit.scripted import Script


@dataclass(frozen=True)
class Expected:
    """A finding, as far as the script decides it."""

    rule: str
    confidence: str
    count: int
    impact: Impact
    first: int | None = None
    """The ``seq`` of the first event that it rests on, where the run names it."""


@dataclass(frozen=True)
class ScriptedRun:
    name: str
    play: Callable[[Script], None]
    expected: tuple[Expected, ...]


RUNS: list[ScriptedRun] = []
Play = Callable[[Script], None]
UNKNOWN = Impact("unknown")


def exact(usd: str) -> Impact:
    return Impact("exact", Usd.parse(usd))


def at_most(usd: str) -> Impact:
    return Impact("at-most", Usd.parse(usd))


def at_least(usd: str) -> Impact:
    return Impact("at-least", Usd.parse(usd))


def run(*expected: Expected) -> Callable[[Play], Play]:
    """Put the run that the function plays, named by it, into the corpus."""

    def keep(play: Play) -> Play:
        RUNS.append(ScriptedRun(play.__name__.replace("_", " "), play, expected))
        return play

    return keep


def of_rules(*rules: str) -> list[ScriptedRun]:
    """The runs in which one of ``rules`` finds something."""
    return [each for each in RUNS if {one.rule for one in each.expected} & set(rules)]


# ── nothing wrong ──


@run()
def nothing_happened(s: Script) -> None:
    s.start()


@run()
def a_few_different_calls(s: Script) -> None:
    s.start(deny_write=(".env",))
    for _ in range(8):
        s.ask()


@run()
def a_long_conversation_that_reads_its_cache(s: Script) -> None:
    s.start()
    s.ask("claude", fresh=20, written=5000)
    for turn in range(30):
        s.ask("claude", fresh=20, read=5000 + 300 * turn, written=300, output=400)


@run()
def everything_once(s: Script) -> None:
    s.start(deny_write=(".env",)).ask().fail().ask(reason="incomplete", finish="length")
    s.fail(reason="client-gone", status=None, source="partial", billed=True).deny("model_denied").deny("max_usd")
    s.use(is_error=True).use(is_error=False).note().hit(1).add(FsChange(change="modified", private={"path": "a.py"}))
    s.add(ProcOrphan(pid=9, ended="exited")).ask("claude", fresh=120_000, output=10)


@run()
def documents_of_different_sizes_one_after_the_other(s: Script) -> None:
    s.start()
    for size in (9000, 5200, 7700, 6100, 12000, 5000, 8800, 7000, 9900, 5100):
        s.ask(fresh=size, output=700)


@run()
def many_calls_that_cost_alike(s: Script) -> None:
    s.start()
    for step in range(60):
        s.ask(output=280 + step)


# ── runaway-loop ──


@run(Expected("runaway-loop", "deterministic", 6, exact("0.0255"), first=6))
def the_same_request_seven_times(s: Script) -> None:
    s.start()
    for _ in range(7):
        s.ask(digest="again")


@run(Expected("runaway-loop", "deterministic", 5, exact("0.02125")))
def the_same_request_between_others(s: Script) -> None:
    s.start()
    for _ in range(6):
        s.ask(digest="again").ask().ask()


@run()
def the_same_request_five_times_is_one_too_few(s: Script) -> None:
    s.start()
    for _ in range(5):
        s.ask(digest="again")


@run()
def eight_samples_side_by_side(s: Script) -> None:
    s.start()
    for call in [s.begin(digest="sample") for _ in range(8)]:
        s.wait(1).end(call)


@run(Expected("runaway-loop", "deterministic", 6, at_least("0.02125")))
def a_loop_one_of_whose_bills_is_not_known(s: Script) -> None:
    s.start()
    for _ in range(6):
        s.ask(digest="again")
    s.ask(digest="again", source="none")


@run(Expected("runaway-loop", "deterministic", 5, UNKNOWN))
def a_loop_of_a_model_without_a_price(s: Script) -> None:
    s.start()
    for _ in range(6):
        s.ask("local", digest="again")


@run(Expected("runaway-loop", "deterministic", 5, at_most("0.02125")))
def a_loop_whose_bills_are_read_as_the_dearest(s: Script) -> None:
    s.start()
    for _ in range(6):
        s.ask(digest="again", assumed=("cache_write",))


@run()
def requests_whose_digests_are_withheld(s: Script) -> None:
    s.start()
    for _ in range(9):
        s.ask(digest="again", digested=False)


@run(
    Expected("runaway-loop", "deterministic", 9, exact("0.03825")),
    Expected("runaway-loop", "deterministic", 5, exact("0.03")),
)
def two_loops_of_two_models(s: Script) -> None:
    s.start()
    for _ in range(10):
        s.ask(digest="again")
    for _ in range(6):
        s.ask("claude", digest="and again")


# ── retry-storm ──


@run(Expected("retry-storm", "deterministic", 6, exact("0"), first=5))
def an_upstream_that_is_down_and_asked_every_second(s: Script) -> None:
    s.start()
    for _ in range(6):
        s.wait(1).fail()


@run()
def four_failures_and_then_an_answer(s: Script) -> None:
    s.start()
    for _ in range(3):
        for _ in range(4):
            s.fail()
        s.ask()


@run()
def failures_with_minutes_between(s: Script) -> None:
    s.start()
    for _ in range(9):
        s.wait(90).fail()


@run()
def ten_calls_side_by_side_that_fail_together(s: Script) -> None:
    s.start()
    for call in [s.begin() for _ in range(10)]:
        s.end(call, failed=True, billed=False, reason="status", status=500)


@run(Expected("retry-storm", "deterministic", 11, exact("0.03825")))
def two_storms_of_answers_that_broke_off_after_their_bill(s: Script) -> None:
    s.start()
    for _ in range(5):
        s.fail(reason="error-event", status=200, billed=True)
    s.ask()
    for _ in range(6):
        s.fail(reason="error-event", status=200, billed=True)
    s.ask()


@run(Expected("retry-storm", "deterministic", 5, UNKNOWN))
def a_storm_of_answers_that_broke_off_without_a_bill(s: Script) -> None:
    s.start()
    for _ in range(5):
        s.fail(reason="truncated", status=200, billed=True, source="none")


@run()
def failures_of_two_upstreams_are_counted_apart(s: Script) -> None:
    s.start()
    for _ in range(4):
        s.fail().fail("claude")


# ── cache-miss ──


@run(Expected("cache-miss", "heuristic", 6, at_most("0.1425")))
def a_conversation_that_reads_no_cache(s: Script) -> None:
    s.start()  # sent again: 8000 + 8600 + ... + 11000 = 57,000 tokens
    for turn in range(7):
        s.ask(fresh=8000 + 600 * turn, output=400)


@run()
def a_short_conversation_without_a_cache(s: Script) -> None:
    s.start()
    for turn in range(30):
        s.ask(fresh=500 + 100 * turn, output=400)


@run(Expected("cache-miss", "deterministic", 6, exact("0.027")))
def a_cache_that_is_written_and_never_read(s: Script) -> None:
    s.start()
    for size in (6000, 6000, 6000, 6000, 6000, 6000):
        s.ask("claude", fresh=20, written=size)


@run()
def a_cache_that_is_written_often_and_read_once(s: Script) -> None:
    s.start()
    for _ in range(6):
        s.ask("claude", fresh=20, written=6000)
    s.ask("claude", fresh=20, read=6000)


@run()
def a_local_model_has_nothing_to_save(s: Script) -> None:
    s.start()
    for turn in range(12):
        s.ask("local", fresh=8000 + 600 * turn, output=400)


# ── fat-context ──


@run(Expected("fat-context", "heuristic", 5, at_most("1.80495")))
def a_whole_repository_for_every_small_answer(s: Script) -> None:
    s.start()
    for _ in range(5):
        s.ask("claude", fresh=120_000, output=66)
        s.ask("claude", fresh=50, output=300)


@run()
def much_context_and_long_answers(s: Script) -> None:
    s.start()
    for _ in range(6):
        s.ask("claude", fresh=120_000, output=4000)
        s.ask("claude", fresh=50, output=300)


# ── premium-for-small-calls ──


@run(Expected("premium-for-small-calls", "heuristic", 12, at_most("0.0114")))
def titles_by_the_dear_model_alone(s: Script) -> None:
    s.start()
    for _ in range(12):
        s.ask(fresh=300, output=20)


@run(Expected("premium-for-small-calls", "heuristic", 12, at_most("0.010716")))
def titles_by_the_dear_model_beside_a_small_one(s: Script) -> None:
    s.start()
    for _ in range(12):
        s.ask(fresh=300, output=20)
    s.ask("gpt-4o-mini", fresh=9000, output=900)


@run()
def titles_by_the_small_model(s: Script) -> None:
    s.start()
    for _ in range(40):
        s.ask("gpt-4o-mini", fresh=300, output=20)


# ── concentration ──


@run(Expected("concentration", "deterministic", 3, exact("0.9"), first=45))
def three_calls_that_cost_most_of_it(s: Script) -> None:
    s.start()
    for _ in range(20):
        s.ask()
    for _ in range(3):
        s.ask(fresh=0, output=30_000)


@run(Expected("concentration", "heuristic", 3, at_least("0.9")))
def three_calls_that_cost_most_of_what_is_known(s: Script) -> None:
    s.start()
    for _ in range(20):
        s.ask()
    for _ in range(3):
        s.ask(fresh=0, output=30_000)
    s.ask(source="none")


@run()
def one_dear_call_of_three(s: Script) -> None:
    s.start().ask().ask().ask(output=90_000)


# ── truncated-answers ──


@run(Expected("truncated-answers", "deterministic", 3, at_most("0.01275")))
def three_of_ten_answers_cut_off(s: Script) -> None:
    s.start()
    for step in range(10):
        s.ask(max_output=300, **({"reason": "incomplete", "finish": "length"} if step % 3 == 1 else {}))


@run()
def answers_of_one_token_that_were_asked_for(s: Script) -> None:
    s.start()
    for _ in range(8):
        s.ask(max_output=1, output=1, reason="incomplete", finish="max_tokens")


@run()
def answers_that_ended_for_safety(s: Script) -> None:
    s.start()
    for _ in range(8):
        s.ask(reason="incomplete", finish="SAFETY", output=900)


@run()
def three_of_a_hundred_answers_cut_off(s: Script) -> None:
    s.start()
    for step in range(100):
        s.ask(**({"reason": "incomplete", "finish": "length"} if step in (5, 50, 95) else {}))


# ── idle-spend ──


@run(Expected("idle-spend", "deterministic", 4, at_least("0.017")))
def an_agent_that_hangs_up(s: Script) -> None:
    s.start()
    for _ in range(4):
        s.fail(reason="client-gone", status=200, billed=True, source="partial").ask()


@run(Expected("idle-spend", "heuristic", 12, at_most("0.009036")))
def asking_every_half_minute_whether_it_is_done(s: Script) -> None:
    s.start().ask("gpt-4o-mini")
    for _ in range(12):
        s.wait(30).ask("gpt-4o-mini", fresh=5000, output=5, seconds=1)


@run()
def a_person_who_thinks_between_short_answers(s: Script) -> None:
    s.start()
    for step in range(20):
        s.wait(40).ask("gpt-4o-mini", output=15 if step % 4 else 300)


@run(Expected("retry-storm", "deterministic", 6, exact("0")))
def hanging_up_on_errors_is_no_spend(s: Script) -> None:
    s.start()
    for _ in range(6):
        s.fail(reason="client-gone", status=503)


# ── tool-failure-loop ──


@run(Expected("tool-failure-loop", "heuristic", 4, at_most("0.017")))
def a_tool_that_fails_four_times(s: Script) -> None:
    s.start().ask()
    for _ in range(4):
        s.use(is_error=True).ask()


@run()
def a_tool_that_fails_twice_and_then_works(s: Script) -> None:
    s.start()
    for _ in range(4):
        s.use(is_error=True).ask().use(is_error=True).ask().use(is_error=False).ask()


@run()
def three_tools_that_fail_twice_each(s: Script) -> None:
    s.start()
    for tool in ("shell", "edit", "search"):
        s.use(tool, exit_code=1).ask().use(tool, status="error").ask()


@run()
def results_that_say_nothing_of_failure(s: Script) -> None:
    s.start()
    for _ in range(8):
        s.use(output="Error: no such file").ask()


# ── policy-denials ──


@run(Expected("policy-denials", "deterministic", 6, exact("0"), first=5))
def a_model_that_is_not_allowed_asked_for_again_and_again(s: Script) -> None:
    s.start().note()
    for _ in range(6):
        s.deny("model_denied", model="o1-pro")


@run(Expected("policy-denials", "deterministic", 2, exact("0")))
def refusals_that_were_counted_together(s: Script) -> None:
    s.start().deny("max_usd", count=4).deny("max_usd", count=3)


@run()
def a_limiter_that_asked_to_wait(s: Script) -> None:
    s.start()
    for _ in range(15):
        s.deny("max_calls_per_minute", final=False)


# ── write-scope ──


@run(Expected("write-scope", "deterministic", 1, UNKNOWN, first=5))
def a_protected_file_changed(s: Script) -> None:
    s.start(deny_write=(".env",)).note().violate()


@run(Expected("write-scope", "deterministic", 2, UNKNOWN))
def more_protected_files_than_have_an_event(s: Script) -> None:
    s.start(deny_write=("etc/",)).violate("etc/a").violate("", "more", count=900)


@run()
def files_changed_that_nothing_protects(s: Script) -> None:
    s.start()
    for number in range(30):
        s.add(FsChange(change="modified", private={"path": f"{number}.py"}))


# ── several at once ──


@run(
    Expected("write-scope", "deterministic", 1, UNKNOWN),
    Expected("runaway-loop", "deterministic", 5, exact("0.02125")),
    Expected("retry-storm", "deterministic", 5, exact("0")),
    Expected("policy-denials", "deterministic", 5, exact("0")),
)
def a_run_in_which_much_goes_wrong(s: Script) -> None:
    s.start(deny_write=(".env",))
    for _ in range(6):
        s.ask(digest="again")
    for _ in range(5):
        s.fail()
    for _ in range(5):
        s.deny("model_denied")
    s.violate()
