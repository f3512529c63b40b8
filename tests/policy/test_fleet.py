"""``[fleet]``: what it accepts, and that no password of a store is on the record."""

from __future__ import annotations

import pytest

from docket.errors import PolicyError
from docket.policy.document import document
from docket.policy.parse import parse
from docket.policy.render import render
from docket.primitives.canonical import encode
from docket.primitives.money import Usd


@pytest.mark.parametrize("word", ["refuse", "allow:0.50", "allow:3"])
def test_what_is_written_reads_back(word: str) -> None:
    policy = parse(f'[fleet]\nbudgets = ["team"]\nstore = "sqlite:///x"\non_store_failure = "{word}"\n')
    assert parse(render(policy)) == policy
    assert policy.fleet.allowance == {"refuse": None, "allow:0.50": Usd.parse("0.5"), "allow:3": Usd.parse("3")}[word]


@pytest.mark.parametrize("value", ['"allow"', '"allow:"', '"allow:0"', '"allow:x"', '"deny"', '"refuse:1"', "1", "[]"])
def test_another_word_for_a_failing_store_is_refused(value: str) -> None:
    with pytest.raises(PolicyError, match=r"docket\.toml: fleet\.on_store_failure: .*must be"):
        parse(f"[fleet]\non_store_failure = {value}\n", "docket.toml")


def test_a_password_in_the_stores_address_is_not_in_the_document() -> None:
    policy = parse('[fleet]\nstore = "postgresql://bob:hunter2@db/x"\n')
    assert b"hunter2" not in encode(document(policy, bytes))
