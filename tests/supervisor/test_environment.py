from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from docket.supervisor.environment import (
    LOOPBACK,
    Route,
    agent_environment,
    changed_names,
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
