from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.errors import PolicyError
from docket.policy.parse import parse
from docket.supervisor.environment import (
    LOOPBACK,
    Route,
    agent_environment,
    changed_names,
    effective_policy,
    gateway,
    no_proxy,
)

OPENAI = Route(name="openai", protocol="openai", base_url="http://127.0.0.1:7/r/t/openai/v1")


def test_base_url_variables_of_the_protocol_point_at_the_boundary():
    child = agent_environment({"PATH": "/bin", "OPENAI_BASE_URL": "https://gw.example/v1"}, (OPENAI,), "DKT-1")
    assert child["OPENAI_BASE_URL"] == child["OPENAI_API_BASE"] == OPENAI.base_url
    assert child["PATH"] == "/bin"
    assert child["DOCKET_RUN"] == "DKT-1"


def test_a_second_upstream_of_a_protocol_is_found_by_its_own_variable_only():
    second = Route(name="my-gw", protocol="openai", base_url="http://127.0.0.1:7/r/t/my-gw")
    child = agent_environment({}, (OPENAI, second), "DKT-1")
    assert child["OPENAI_BASE_URL"] == OPENAI.base_url
    assert child["DOCKET_UPSTREAM_MY_GW"] == second.base_url


def test_a_gateway_in_the_parent_is_found_and_a_socket_path_is_none():
    assert gateway({"OPENAI_API_BASE": "https://gw.example/v1"}, "openai") == (
        "OPENAI_API_BASE",
        "https://gw.example/v1",
    )
    assert gateway({"OLLAMA_HOST": "127.0.0.1:11434"}, "ollama") is None


def test_no_proxy_keeps_the_star():
    assert no_proxy({"NO_PROXY": "example.test, *"}) == "*"


def test_names_that_changed_are_named_and_values_are_not():
    assert changed_names({"A": "1", "B": "secret"}, {"A": "1", "B": "2", "C": "3"}) == ["B", "C"]


@given(
    st.lists(st.text(alphabet="abc.:*[]1", min_size=1, max_size=8), max_size=5),
    st.sampled_from(["no_proxy", "NO_PROXY"]),
)
def test_every_entry_of_no_proxy_is_kept_and_loopback_is_always_spared(entries: list[str], name: str):
    result = no_proxy({name: ",".join(entries)}).split(",")
    if "*" in entries:
        assert result == ["*"]
    else:
        assert set(result) == set(entries) | set(LOOPBACK)
        assert len(result) == len(set(result))


def addresses(policy: str = "", **environ: str) -> dict[str, str]:
    return {upstream.name: upstream.base_url for upstream in effective_policy(parse(policy), environ).upstreams}


def test_an_upstream_that_not_every_run_has_is_there_by_its_key_and_place_or_by_its_address():
    assert "azure" not in addresses()
    assert "azure" not in addresses(AZURE_OPENAI_API_KEY="k"), "nothing says which resource"
    assert "azure" not in addresses(AZURE_RESOURCE_NAME="blue"), "nothing says that it is used"
    blue = "https://blue.openai.azure.com"
    assert addresses(AZURE_OPENAI_API_KEY="k", AZURE_RESOURCE_NAME="blue")["azure"] == blue
    assert addresses(AZURE_OPENAI_ENDPOINT="https://gw.example/")["azure"] == "https://gw.example/"
    assert addresses("[upstreams.deepseek]")["deepseek"] == "https://api.deepseek.com", (
        "named, by nothing but its table"
    )
    assert addresses("[upstreams.azure]", AZURE_RESOURCE_NAME="blue")["azure"] == blue
    for place in ("evil.example/", "a@b", "", "a b"):
        assert "azure" not in addresses(AZURE_OPENAI_API_KEY="k", AZURE_RESOURCE_NAME=place)


def test_an_upstream_that_the_policy_names_without_an_address_is_an_error_that_says_the_way_out():
    with pytest.raises(PolicyError, match=r"upstreams\.azure: its address is not known") as error:
        addresses("[upstreams.azure]")
    assert error.value.hint == "give base_url, or set AZURE_OPENAI_ENDPOINT or AZURE_RESOURCE_NAME"


@pytest.mark.parametrize(
    ("environ", "address"),
    [
        ({"GOOGLE_GENAI_USE_VERTEXAI": "true"}, "https://aiplatform.googleapis.com"),
        ({"CLAUDE_CODE_USE_VERTEX": "1", "CLOUD_ML_REGION": "us-east5"}, "https://us-east5-aiplatform.googleapis.com"),
        ({"CLAUDE_CODE_USE_VERTEX": "1", "CLOUD_ML_REGION": "eu"}, "https://aiplatform.eu.rep.googleapis.com"),
        ({"CLAUDE_CODE_USE_VERTEX": "0", "CLOUD_ML_REGION": "eu"}, None),
        ({"CLAUDE_CODE_USE_VERTEX": "1", "CLOUD_ML_REGION": "x.evil.example/"}, None),
        ({"ANTHROPIC_VERTEX_BASE_URL": "https://gw.example/vertex/v1/"}, "https://gw.example/vertex"),
        ({"GOOGLE_VERTEX_BASE_URL": "https://gw.example/vertex/"}, "https://gw.example/vertex/"),
    ],
)
def test_vertex_is_where_its_clients_would_go(environ: dict[str, str], address: str | None):
    assert addresses(**environ).get("vertex") == address
