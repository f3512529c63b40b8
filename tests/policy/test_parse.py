"""docket.toml and flags to a Policy: what is read, and how everything else is refused."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.errors import PolicyError
from docket.policy.keys import keys_of
from docket.policy.model import BUILT_IN_UPSTREAMS, TABLES, Policy
from docket.policy.parse import override, parse
from docket.policy.render import render
from docket.primitives.instant import Duration
from docket.primitives.money import Usd

WHOLE = """
[policy]
name = "ci"
[budget]
mode = "usd"
unpriced = "count-only"
[caps]
max_usd = 0.05
max_tokens = 1_000
max_model_calls = 7
max_wall_seconds = 1.5
warn_at = 0.5
on_breach = "deny"
grace_seconds = 0
[models]
allow = ["gpt-5*"]
deny = []
[upstreams.openai]
base_url = "https://gateway.example/openai/v1/"
[upstreams.local]
base_url = "http://127.0.0.1:8000/v1"
protocol = "openai"
provider = "acme"
[evidence]
record_requests = true
max_body_bytes = "2 MiB"
"""


def test_every_key_of_a_whole_file_is_read_exactly() -> None:
    policy = parse(WHOLE)
    assert policy.name == "ci"
    assert policy.caps.max_usd == Usd.parse("0.05")
    assert policy.caps.max_wall_seconds == Duration(1_500_000)
    assert policy.caps.warn_at == Decimal("0.5")
    assert policy.caps.grace_seconds == Duration(0)
    assert policy.evidence.record_requests
    assert policy.evidence.max_body_bytes == 2 * 2**20
    openai, local = policy.upstream("openai"), policy.upstream("local")
    assert openai is not None
    assert (openai.base_url, openai.protocol, openai.given) == ("https://gateway.example/openai/v1", "openai", True)
    assert local is not None
    assert (local.vendor, local.given) == ("acme", True)


def test_an_empty_file_is_the_default_policy() -> None:
    assert parse("") == Policy()


def test_an_own_upstream_takes_the_place_of_the_built_in_one_of_its_protocol() -> None:
    policy = parse('[upstreams.gate]\nbase_url = "https://gate.example"\nprotocol = "anthropic"')
    assert [upstream.name for upstream in policy.upstreams][:4] == ["gate", "openai", "gemini", "ollama"]


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ("[caps]\nmax_us = 5", "docket.toml: caps.max_us", "max_usd"),
        ("[budget]\nmax_usd = 5", "docket.toml: budget.max_usd", "caps.max_usd"),
        ("[cap]\nmax_usd = 5", "docket.toml: cap", "caps"),
        ("max_usd = 5", "docket.toml: max_usd", "caps.max_usd"),
        ("[caps]\nmax_usd = nan", "docket.toml: caps.max_usd", "above 0"),
        ("[caps]\nmax_usd = inf", "docket.toml: caps.max_usd", "above 0"),
        ("[caps]\nmax_usd = -1", "docket.toml: caps.max_usd", "above 0"),
        ("[caps]\nmax_usd = 0", "docket.toml: caps.max_usd", "above 0"),
        ("[caps]\nmax_usd = 1e30", "docket.toml: caps.max_usd", "at most"),
        ("[caps]\nmax_usd = 1e-13", "docket.toml: caps.max_usd", "decimal places"),
        ("[caps]\nmax_usd = true", "docket.toml: caps.max_usd", "US dollars"),
        ('[caps]\nmax_usd = "5"', "docket.toml: caps.max_usd", "US dollars"),
        ("[caps]\nmax_tokens = 1.5", "docket.toml: caps.max_tokens", "whole number"),
        ("[caps]\nmax_model_calls = 0", "docket.toml: caps.max_model_calls", "whole number from 1"),
        ("[caps]\nwarn_at = 1.01", "docket.toml: caps.warn_at", "from 0.01 to 1"),
        ("[caps]\nmax_wall_seconds = 1e9", "docket.toml: caps.max_wall_seconds", "seconds"),
        ('[caps]\non_breach = "stop"', "docket.toml: caps.on_breach", '"kill" or "deny"'),
        ("caps = 5", "docket.toml: caps", "table"),
        ("upstreams = 5", "docket.toml: upstreams", "[upstreams.NAME]"),
        ('[upstreams.docket]\nbase_url = "http://h"\nprotocol = "openai"', "upstreams.docket", "no name"),
        ('[upstreams.private]\nbase_url = "http://h"\nprotocol = "openai"', "upstreams.private", "no name"),
        ('[upstreams."a/b"]\nbase_url = "http://h"\nprotocol = "openai"', "upstreams.a/b", "no name"),
        ('[upstreams.mine]\nprotocol = "openai"', "upstreams.mine.base_url", "missing"),
        ('[upstreams.mine]\nbase_url = "ftp://h"\nprotocol = "openai"', "upstreams.mine.base_url", "http"),
        ('[upstreams.mine]\nbase_url = "http://h:99999"\nprotocol = "openai"', "upstreams.mine.base_url", "http"),
        ('[models]\nallow = "gpt"', "docket.toml: models.allow", "list"),
        ("[models]\nallow = [5]", "docket.toml: models.allow", "string"),
        ("[caps", "docket.toml", "not TOML"),
        ("a" * 2_000_000, "docket.toml", "longer"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_place_and_with_a_way_out(text: str, place: str, expected: str) -> None:
    with pytest.raises(PolicyError) as caught:
        parse(text)
    assert place in caught.value.path
    assert expected in f"{caught.value} {caught.value.hint}"


def test_a_refused_url_never_shows_its_credentials() -> None:
    with pytest.raises(PolicyError) as caught:
        parse('[upstreams.mine]\nbase_url = "https://SENTINEL:SENTINEL@h/v1?key=SENTINEL"\nprotocol = "openai"')
    assert "SENTINEL" not in f"{caught.value} {caught.value.hint}"
    assert "[removed]@h" in str(caught.value)


def test_flags_override_the_file_and_are_read_as_strictly() -> None:
    policy = override(parse(WHOLE), {"caps.max_usd": ("--max-usd", "$2.5"), "caps.max_wall_seconds": ("-w", "15m")})
    assert policy.caps.max_usd == Usd.parse("2.5")
    assert policy.caps.max_wall_seconds == Duration(900_000_000)
    assert policy.caps.max_tokens == 1000
    for text in ("nan", "-1", "five", "", "1e99"):
        with pytest.raises(PolicyError) as caught:
            override(policy, {"caps.max_usd": ("--max-usd", text)})
        assert caught.value.path == "--max-usd"


def test_an_upstream_flag_moves_a_known_one_or_adds_one() -> None:
    policy = override(Policy(), {}, ("anthropic=http://127.0.0.1:1", "mine:gemini=http://127.0.0.1:2/x"))
    anthropic, mine = policy.upstream("anthropic"), policy.upstream("mine")
    assert anthropic is not None
    assert (anthropic.protocol, anthropic.base_url, anthropic.given) == ("anthropic", "http://127.0.0.1:1", True)
    assert mine is not None
    assert (mine.protocol, mine.vendor) == ("gemini", "google")
    assert policy.upstream("gemini") is None
    for text in ("http://h", "x=ftp://h", "x:smtp=http://h", "private=http://h"):
        with pytest.raises(PolicyError, match="--upstream"):
            override(Policy(), {}, (text,))


def test_what_init_writes_is_the_default_policy_and_shows_every_key() -> None:
    text = render(Policy())
    assert parse(text) == Policy()
    for name, (_, cls) in TABLES.items():
        assert f"[{name}]" in text
        for key in keys_of(cls):
            assert f"\n# {key.name} = " in text


def test_every_example_that_init_shows_is_accepted_when_uncommented() -> None:
    lines = render(Policy()).splitlines()
    shown = [line[2:] for line in lines if line.startswith(("# [", "[")) or (line.startswith("# ") and " = " in line)]
    table = ""
    for line in (line.removeprefix("# ") for line in lines):
        if line.startswith("["):
            table = line
        elif line.split(" = ")[0].isidentifier() and " = " in line and not table.startswith("[upstreams"):
            parse(f"{table}\n{line}")
    assert shown


def test_a_file_rendered_from_a_policy_parses_back_to_it() -> None:
    policy = parse(WHOLE)
    assert parse(render(policy)) == policy


@given(st.sampled_from([(n, k) for n, (_, cls) in TABLES.items() for k in keys_of(cls)]), st.data())
def test_any_value_of_any_key_is_either_refused_or_survives_rendering(row, data) -> None:  # type: ignore[no-untyped-def]
    table, key = row
    value = data.draw(
        st.one_of(
            st.integers(-5, 10**13),
            st.decimals(allow_nan=True, allow_infinity=True),
            st.booleans(),
            st.text(max_size=20),
            st.lists(st.text(max_size=5), max_size=3),
        )
    )
    try:
        read = key.kind.read(value)
    except ValueError:
        return
    member, cls = TABLES[table]
    policy = Policy(**{member: cls(**{key.name: read})})
    assert parse(render(policy)) == policy


@given(st.text(max_size=60))
def test_no_text_raises_anything_but_a_policy_error(text: str) -> None:
    try:
        parse(text)
    except PolicyError:
        return


def test_built_in_upstreams_are_what_the_vendors_own_variables_would_hold() -> None:
    addresses = {upstream.name: upstream.base_url for upstream in BUILT_IN_UPSTREAMS}
    assert addresses["openai"].endswith("/v1")
    assert not addresses["anthropic"].endswith("/v1")


def test_limits_of_the_file_hold_exactly() -> None:
    def upstreams(count: int) -> str:
        return "".join(f'[upstreams.u{n}]\nbase_url = "http://h"\nprotocol = "openai"\n' for n in range(count))

    assert len(parse(upstreams(64)).upstreams) == 64 + len(BUILT_IN_UPSTREAMS) - 1, "each but that of their protocol"
    with pytest.raises(PolicyError, match="more than 64 upstreams"):
        parse(upstreams(65))
    names = ", ".join(f'"m{n}"' for n in range(1024))
    assert len(parse(f"[models]\ndeny = [{names}]").models.deny) == 1024
    with pytest.raises(PolicyError, match="at most 1024"):
        parse(f'[models]\ndeny = [{names}, "x"]')
    assert parse(f'[policy]\nname = "{"n" * 256}"').name == "n" * 256
    for name in ("n" * 257, "", "a\\nb"):
        with pytest.raises(PolicyError, match="printable"):
            parse(f'[policy]\nname = "{name}"')
    assert parse("[caps]\nmax_wall_seconds = 31622400").caps.max_wall_seconds == Duration(31_622_400_000_000)
    with pytest.raises(PolicyError, match="31622400"):
        parse("[caps]\nmax_wall_seconds = 31622401")
    assert parse("[caps]\nmax_usd = 1000000").caps.max_usd == Usd.parse("1000000")
    with pytest.raises(PolicyError, match="1000000"):
        parse("[caps]\nmax_usd = 1000000.000001")


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [("5", 5), ("5B", 5), ("1 KiB", 1024), ("1KB", 1000), ("2MiB", 2**21), ("2 MB", 2 * 10**6), ("1GB", 10**9)],
)
def test_a_size_may_be_written_with_a_unit(text: str, bytes_: int) -> None:
    if bytes_ <= 256 * 2**20:
        assert parse(f'[evidence]\nmax_body_bytes = "{text}"').evidence.max_body_bytes == bytes_
    else:
        with pytest.raises(PolicyError, match="number of bytes"):
            parse(f'[evidence]\nmax_body_bytes = "{text}"')


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("15m", 900), ("2h", 7200), ("1.5h", 5400), ("7", 7), ("90", 90)]
)
def test_a_time_on_the_command_line_may_have_a_unit(text: str, seconds: int) -> None:
    policy = override(Policy(), {"caps.max_wall_seconds": ("--max-wall-clock", text)})
    assert policy.caps.max_wall_seconds == Duration(seconds * 1_000_000)


@pytest.mark.parametrize("text", ["", "s", "h", "1d", "-1h", "nanh", "infs"])
def test_a_time_that_is_none_is_refused_by_its_flag(text: str) -> None:
    with pytest.raises(PolicyError, match="--max-wall-clock"):
        override(Policy(), {"caps.max_wall_seconds": ("--max-wall-clock", text)})


def test_names_of_models_are_a_table_or_a_list_and_are_kept_as_one() -> None:
    table = parse('[upstreams.azure]\n[upstreams.azure.models]\nteam-blue = "gpt-4o"\nred = "o3"\n')
    assert table.upstream("azure").model_of == {"team-blue": "gpt-4o", "red": "o3"}
    assert parse('[upstreams.azure]\nmodels = ["team-blue=gpt-4o", "red=o3"]') == table
    assert parse(render(table)).upstream("azure").models == table.upstream("azure").models
    for wrong in ('"a=b"', "{a = 1}", '["a"]', '["=b"]', '["a="]', '["a=b", "a=c"]', '{"a=b" = "c"}', '{a = ""}'):
        with pytest.raises(PolicyError, match=r"upstreams\.azure\.models"):
            parse(f"[upstreams.azure]\nmodels = {wrong}")
