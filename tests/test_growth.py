"""ARCHITECTURE.md says where growth goes: a toy event and a toy cap are added to a copy of the sources, in just the
files that their rows name, and everything else follows from them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import docket

SOURCES = Path(docket.__file__).parent
ROOT = SOURCES.parents[1]

EVENT = {
    "ledger/events.py": (
        (
            "@frozen\nclass Note(Fact):",
            '@frozen\nclass ToyWound(Fact):\n    type: ClassVar[str] = "toy.wound"\n    turns: int'
            "\n\n\n@frozen\nclass Note(Fact):",
        ),
        ("    | Note\n", "    | Note\n    | ToyWound\n"),
    ),
}
EVENT_FOLLOWS = """
    from docket.errors import FormatError
    from docket.ledger.codec import draft, from_json
    from docket.ledger.events import Other, ToyWound

    event = ToyWound(turns=3, private={"key": "brass"})
    assert draft(event).data_bytes == b'{"turns":3}', draft(event)
    again = from_json("toy.wound", "supervisor", {"turns": 3, "later": 1})
    assert isinstance(again, ToyWound) and again.turns == 3 and again.unknown == {"later": 1}, again
    try:
        from_json("toy.wound", "supervisor", {"turns": "three"})
    except FormatError as error:
        assert "turns" in str(error), error
    else:
        raise AssertionError("a member of another type was taken")
    print("all of it")
"""
UNKNOWN_EVENT = """
    from docket.ledger.codec import from_json, to_data
    from docket.ledger.events import Other

    event = from_json("toy.wound", "supervisor", {"turns": 3})
    assert isinstance(event, Other) and event.name == "toy.wound" and to_data(event) == {"turns": 3}, event
    print("all of it")
"""
CAP = {
    "ledger/events.py": (('"max_usd", "max_tokens",', '"max_toys", "max_usd", "max_tokens",'),),
    "policy/model.py": (
        (
            "    max_tokens: int | None = key(",
            '    max_toys: int | None = key(Optional(Count()), "Toys that calls name.", default=None, example="3")'
            "\n    max_tokens: int | None = key(",
        ),
    ),
    "control/budget.py": (
        ("    calls: int = 0\n", "    calls: int = 0\n    toys: int = 0\n"),
        (
            "        max_calls: int | None = None,\n",
            "        max_calls: int | None = None,\n        max_toys: int | None = None,\n",
        ),
        (
            "self.meters = (self.usd, self.tokens, self.calls)",
            'self.meters = (self.usd, self.tokens, self.calls, _meter("max_toys", max_toys, warn_at))',
        ),
    ),
    "control/admission.py": (
        ("max_calls=caps.max_model_calls,", "max_calls=caps.max_model_calls,\n            max_toys=caps.max_toys,"),
    ),
    "control/holds.py": (
        ("return Held(Amounts(calls=1), priced=False)", "return Held(Amounts(calls=1, toys=1), priced=False)"),
    ),
    "control/booking.py": (
        (
            "return Booked(usage, model, name, Amounts(calls=1))",
            "return Booked(usage, model, name, Amounts(calls=1, toys=1))",
        ),
    ),
}
CAP_FOLLOWS = """
    from docket.control.admission import Gate
    from docket.control.breaker import Ended
    from docket.control.decision import Refused
    from docket.policy.parse import parse
    from docket.pricing.table import PriceTable
    from docket.primitives.instant import Instant
    from docket.providers.call import Call, Endpoint, EndpointClass

    policy = parse("[caps]\\nmax_toys = 2\\n", "docket.toml")
    assert policy.caps.max_toys == 2
    endpoint = Endpoint(name="/v1/toys", kind=EndpointClass.UNMETERED, protocol="", family="openai")
    call = Call(
        upstream="up", provider="acme", endpoint=endpoint, model="toy", max_output=None, body_bytes=1, parsed=True
    )
    table = b'{"format":"docket-prices/1","source":"toy","version":"1","date":"2026-11-30","models":[]}'
    gate = Gate(policy, PriceTable.parse(table, at="2026-11-30"))
    for turn in (1, 2):
        admitted = gate.admit(call, Instant(turn))
        assert not isinstance(admitted, Refused), admitted
        settled = gate.settle(admitted, call, Ended(reason="complete", status=200), None, Instant(turn))
    assert [(breach.cap, breach.limit, breach.observed) for breach in settled.breaches] == [("max_toys", "2", "2")]
    refused = gate.admit(call, Instant(3))
    assert isinstance(refused, Refused) and refused.code == "max_toys" and refused.final, refused
    assert gate.left()["caps"]["max_toys"] == {"limit": "2", "booked": "2", "reserved": "0", "left": "0"}
    assert gate.cap_use()["max_toys"].spent
    print("all of it")
"""


def grown(edits: dict[str, tuple[tuple[str, str], ...]], to: Path) -> Path:
    """Return a directory whose ``docket`` is the sources with ``edits``, each of which stands exactly once."""
    shutil.copytree(SOURCES, to / "docket", ignore=shutil.ignore_patterns("__pycache__"))
    for name, pairs in edits.items():
        path = to / "docket" / name
        text = path.read_text()
        for old, new in pairs:
            assert text.count(old) == 1, (name, old)
            text = text.replace(old, new)
        path.write_text(text)
    return to


def played(program: str, sources: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"PYTHONPATH": str(sources)},
    )
    assert done.stdout == "all of it\n", done.stderr


def row(need: str) -> set[str]:
    """Return the files below ``src/docket`` that the row of ``need`` names as the place to grow."""
    (place,) = re.findall(rf"^\| {need} \| (.*) \|$", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE)
    return set(re.findall(r"`src/docket/([a-z_/]+\.py)`", place))


def test_a_toy_event_grows_where_its_row_says(tmp_path: Path) -> None:
    assert set(EVENT) == row("another event")
    played(EVENT_FOLLOWS, grown(EVENT, tmp_path))


def test_a_reader_that_does_not_know_an_event_keeps_it() -> None:
    played(UNKNOWN_EVENT, SOURCES.parent)


def test_a_toy_cap_grows_where_its_row_says(tmp_path: Path) -> None:
    assert set(CAP) == row("another cap on calls")
    played(CAP_FOLLOWS, grown(CAP, tmp_path))
