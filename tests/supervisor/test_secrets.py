from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.supervisor.secrets import MARKER, Secrets

SENTINEL = "SENTINEL9f3a-long-enough"


@pytest.mark.parametrize(
    "argv",
    [
        ["agent", "--api-key", SENTINEL],
        ["agent", f"--api-key={SENTINEL}"],
        ["env", f"OPENAI_API_KEY={SENTINEL}", "agent"],
        ["curl", "-H", f"Authorization: Bearer {SENTINEL}"],
        ["curl", f"https://user:{SENTINEL}@host.example/v1"],
        ["curl", f"https://host.example/v1?alt=sse&key={SENTINEL}"],
        ["agent", "--password", SENTINEL, "--verbose"],
    ],
)
def test_no_credential_of_an_argument_is_kept_and_the_marker_says_that_one_was_there(argv: list[str]):
    shown = Secrets({}).redact_argv(argv)
    assert SENTINEL not in " ".join(shown)
    assert MARKER in " ".join(shown)
    assert len(shown) == len(argv)


@pytest.mark.parametrize(
    "key", ["sk-ant-api03-abcdefghijk", "sk-proj-abcdefghijklmnop", "AIzaSyA1234567890abcdefghijk", "ghp_" + "a" * 36]
)
def test_a_key_is_known_by_its_shape(key: str):
    assert key not in Secrets({}).redact(f"failed with {key}, sorry")


def test_ordinary_words_are_left_alone():
    argv = ["python", "agent.py", "--max-tokens=5", "tokenize the keyboard", "monkey"]
    assert Secrets({"HOME": "/home/someone", "SHORT_KEY": "abc"}).redact_argv(argv) == argv
    assert Secrets({}).redact("tokenize the keyboard") == "tokenize the keyboard"


@given(st.text(min_size=8, max_size=40), st.sampled_from(["OPENAI_API_KEY", "MY_TOKEN", "db_password", "X_SECRET"]))
def test_a_value_that_the_environment_calls_secret_never_survives(value: str, name: str):
    text = Secrets({name: value}).redact(f"a{value}b{value}")
    assert value not in text.replace(MARKER, "\0")
