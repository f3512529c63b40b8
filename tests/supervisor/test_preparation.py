from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from docket.clock import SystemClock
from docket.errors import UsageError
from docket.policy.model import Policy
from docket.policy.parse import parse
from docket.supervisor.preparation import prepare
from docket.supervisor.request import RunRequest


@pytest.fixture
def request_(tmp_path: Path) -> RunRequest:
    return RunRequest(argv=("true",), policy=Policy(), docket_dir=tmp_path / ".docket", cwd=tmp_path, environ={})


def refused(request: RunRequest, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        prepare(request, SystemClock())
    assert not request.docket_dir.exists()


def test_a_gateway_in_the_environment_becomes_the_upstreams_address(request_: RunRequest):
    prepared = prepare(replace(request_, environ={"OPENAI_BASE_URL": "https://gw.example/v1"}), SystemClock())
    prepared.listener.close()
    upstream = prepared.request.policy.upstream("openai")
    assert upstream is not None
    assert upstream.base_url == "https://gw.example/v1"


def test_an_address_that_the_policy_names_is_not_replaced_by_the_environment(request_: RunRequest):
    policy = parse('[upstreams.mine]\nbase_url = "https://mine.example/v1"\nprotocol = "openai"\n')
    request = replace(request_, policy=policy, environ={"OPENAI_BASE_URL": "https://gw.example/v1"})
    prepared = prepare(request, SystemClock())
    prepared.listener.close()
    upstream = prepared.request.policy.upstream("mine")
    assert upstream is not None
    assert upstream.base_url == "https://mine.example/v1"


def test_every_wrong_call_is_refused_before_a_trace_is_left(request_: RunRequest, tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused(replace(request_, port=port), f"--port: cannot listen on 127.0.0.1 port {port}")
        busy = parse(f'[health]\nlisten = "127.0.0.1:{port}"\n')
        refused(replace(request_, policy=busy), "--health-listen: cannot listen")
    refused(replace(request_, prices=tmp_path / "none.json"), "price table")
    refused(replace(request_, operator_key=tmp_path / "none.pem"), "key file")
    refused(replace(request_, summary_file=tmp_path / "no" / "s.md"), "--summary-file")
