"""Routers and servers that speak like OpenAI, by the official SDK: metered exactly, capped and refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

import pytest

from docket.families import FAMILIES
from kit.installed import Installed, agent
from kit.stand_in import Asked, Given, StandIn, standing_in
from providers.fixtures import load

ROUTERS = {family.name: family for family in FAMILIES if family.like == ("openai",)}
ANSWERS = {fixture.name.partition("_")[2]: fixture for fixture in load() if fixture.family in ROUTERS}
RATES = {"input": "2", "cache_read": "0.2", "cache_write_5m": "2.5", "output": "10"}
"""The hand-made table by which the fixtures state their costs."""


def answer(asked: Asked) -> Given:
    name = asked.path.split("/")[1]
    streamed = asked.document.get("stream") is True
    body = ANSWERS[f"{name}_{'stream' if streamed else 'whole'}"].body
    return Given(body, "text/event-stream" if streamed else "application/json", pieces=(5, len(body) // 2))


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    with standing_in(answer) as server:
        yield server


def run(installed: Installed, stand_in: StandIn, *flags: str, policy: str = "") -> list[dict[str, Any]]:
    """Run the agent at every router, addresses as a user gives them: in their own variables or in the policy."""
    environment = {}
    for name, family in ROUTERS.items():
        url = f"{stand_in.url}/{name}{urlsplit(family.base_url).path}"
        if family.variables:
            environment[family.variables[0]] = family.value(family.variables[0], url)
        else:
            policy += f'[upstreams.{name}]\nbase_url = "{url}"\n'
    rows = [["standard", kind, price, 1_000_000] for kind, price in RATES.items()]
    models = [
        {"provider": family.vendor, "model": "acme-chat-1", "periods": [{"rows": rows}]} for family in ROUTERS.values()
    ]
    table = {"format": "docket-prices/1", "source": "us", "version": "1", "date": "2026-12-01", "models": models}
    (installed.directory / "prices.json").write_text(json.dumps(table))  # noqa: TID251 - a file of a user's
    (installed.directory / "docket.toml").write_text(policy)
    command = ["run", "--prices", "prices.json", *flags, "--", *agent("routers.py", *ROUTERS)]
    done = installed.run(*command, env=environment)
    assert done.status in (0, 42), done.err
    return [json.loads(line) for line in done.out.splitlines()]


def total(member: str) -> Decimal:
    return sum((Decimal(str(fixture.expected[member])) for fixture in ANSWERS.values()), Decimal(0))


def test_every_router_is_metered_to_the_token_and_its_own_word_on_cost_stands_beside(
    installed: Installed, stand_in: StandIn
) -> None:
    *said, variables = run(installed, stand_in)
    assert [line["whole"] + line["streamed"] for line in said] == ["hellohello"] * len(ROUTERS)
    for name, family in ROUTERS.items():
        for variable in family.variables:
            end = family.paths.get(variable, urlsplit(family.base_url).path)
            assert urlsplit(variables[variable]).path.endswith(f"/{name}/{name}{end}"), "its route, then the given path"
    totals = installed.receipt()["totals"]
    tokens = totals["tokens"]
    assert tokens["input"] == total("input_uncached_tokens")
    assert tokens["cache_read"] == total("cache_read_tokens")
    assert tokens["cache_write_5m"] == total("cache_write_5m_tokens")
    assert tokens["output"] == total("output_tokens")
    assert Decimal(totals["cost_usd"]) == total("cost_usd")
    assert totals["cost_is"] == "exact"
    assert totals["by_source"]["reported"] == totals["calls"] == 2 * len(ROUTERS)
    by_provider: dict[str, Decimal] = {}
    stated: dict[str, set[str]] = {}
    for event in installed.events("model.response"):
        usage, provider = event["data"]["usage"], event["data"]["provider"]
        by_provider[provider] = by_provider.get(provider, Decimal(0)) + Decimal(usage["cost_usd"])
        stated.setdefault(provider, set()).add(usage.get("stated_usd"))
    assert by_provider == {
        family.vendor: 2 * Decimal(ANSWERS[f"{name}_whole"].expected["cost_usd"]) for name, family in ROUTERS.items()
    }
    assert {provider for provider, amounts in stated.items() if amounts != {None}} == {"openrouter", "x-ai"}
    assert stated["openrouter"] == {"0.00123"}, "beside docket's own figure, never instead of it"
    assert installed.verdict()["verdict"] == "verified"


def test_a_cap_and_a_denied_model_reach_the_sdk_as_its_own_error(installed: Installed, stand_in: StandIn) -> None:
    *said, _ = run(installed, stand_in, "--max-calls", "1", "--on-breach", "deny")
    assert said[0]["whole"] == "hello"
    refused = [line["refused"] for line in said]
    assert {error["code"] for error in refused} == {"max_model_calls"}
    assert len(stand_in.seen) == installed.receipt()["totals"]["calls"] == 1
    *said, _ = run(installed, stand_in, policy='[models]\ndeny = ["acme-*"]\n')
    assert {line["refused"]["code"] for line in said} == {"model_denied"}
    assert all(
        error["docket"]["docket"] == installed.receipt()["docket"] for error in (line["refused"] for line in said)
    )
    assert len(stand_in.seen) == 1, "nothing more reached a provider"


def test_a_router_is_there_only_where_its_key_or_address_is(installed: Installed) -> None:
    done = installed.run("run", "--", "sh", "-c", "env", env={"MISTRAL_API_KEY": "k"})
    names = {line.partition("=")[0] for line in done.out.splitlines()}
    assert {"MISTRAL_API_BASE", "DOCKET_UPSTREAM_MISTRAL", "OPENAI_BASE_URL"} <= names
    assert not names & {"XAI_API_BASE", "GROQ_BASE_URL", "DOCKET_UPSTREAM_VLLM"}
