"""``[keys]`` names places, never a variable that no client reads."""

from __future__ import annotations

import pytest

from docket.errors import PolicyError
from docket.policy.parse import parse
from docket.policy.render import render


@pytest.mark.parametrize(
    "line",
    [
        'files = ["NO_SUCH_KEY=x"]',
        'files = ["OPENAI_API_KEY="]',
        'files = ["OPENAI_API_KEY"]',
        'files = "x"',
        'commands = ["OPENAI_API_KEY=a", "OPENAI_API_KEY=b"]',
        'dotenv = ""',
        'nothing = "x"',
    ],
)
def test_what_names_no_key_or_no_place_is_refused(line: str) -> None:
    with pytest.raises(PolicyError, match=r"docket\.toml: keys\."):
        parse(f"[keys]\n{line}\n")


def test_what_is_written_reads_back() -> None:
    policy = parse(
        '[keys]\ndotenv = "x.env"\nfiles = ["OPENAI_API_KEY=a=b"]\ncommands = ["GEMINI_API_KEY=op read x"]\n'
    )
    assert policy.keys.files == ("OPENAI_API_KEY=a=b",)
    assert parse(render(policy)) == policy
