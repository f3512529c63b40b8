"""``docket run`` from outside: streams, files, and what a proxy in the environment does."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable

import pytest

from kit.installed import Installed, Provider, agent

CALL = 'curl -s -H \'content-type: application/json\' -d \'{"model":"gpt-4o","messages":[]}\' '
"""A model call without an SDK; what comes after it is the URL."""


def test_stdout_is_the_agents_alone_and_the_two_lines_that_count_are_on_stderr(installed: Installed) -> None:
    done = installed.run("run", "--quiet", "--label", "nightly", "--", "echo", "only this")
    assert done.out == "only this\n"
    receipt = installed.receipt()
    lines = done.err.splitlines()
    key, root = receipt["signatures"][0]["key"], receipt["ledger"]["root"]
    assert any(receipt["docket"] in line and key in line for line in lines)
    assert any(receipt["docket"] in line and root in line for line in lines)
    pinned = installed.run("verify", "--run-key", key, "--root", root, str(installed.latest))
    assert pinned.status == 0, pinned.out + pinned.err
    listed = installed.run("ls", "--label", "nightly")
    assert receipt["docket"] in listed.out


def test_the_summary_is_written_where_ci_looks(installed: Installed) -> None:
    step, own = installed.directory / "step.md", installed.directory / "own.md"
    done = installed.run("run", "--summary-file", str(own), "--", "true", env={"GITHUB_STEP_SUMMARY": str(step)})
    assert done.status == 0, done.err
    assert own.read_text() == step.read_text()
    assert installed.receipt()["docket"] in own.read_text()


def test_a_signed_run_names_who_vouches(installed: Installed) -> None:
    public = installed.run("keygen", "op.pem").out.strip()
    done = installed.run("run", "--sign", "op.pem", "--", "true")
    assert done.status == 0, done.err
    assert [signature["role"] for signature in installed.receipt()["signatures"]] == ["run", "operator"]
    assert installed.run("verify", "--operator", public, str(installed.latest)).status == 0
    other = installed.run("keygen", "other.pem").out.strip()
    assert installed.run("verify", "--operator", other, str(installed.latest)).status == 1


PYTHON = """
import json, os, urllib.request
body = json.dumps({"model": "gpt-4o", "messages": []}).encode()
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
request = urllib.request.Request(url, body, {"content-type": "application/json"})
print(json.load(urllib.request.urlopen(request))["object"])
"""
NODE = """
const body = JSON.stringify({model: "gpt-4o", messages: []});
const headers = {"content-type": "application/json"};
fetch(process.env.OPENAI_BASE_URL + "/chat/completions", {method: "POST", body, headers})
  .then((answer) => answer.json()).then((answer) => console.log(answer.object));
"""
CLIENTS = {
    "curl": ["sh", "-c", f'{CALL} "$OPENAI_BASE_URL/chat/completions"'],
    "python": [sys.executable, "-c", PYTHON],
    "openai": agent("openai_agent.py", "1"),
    "node": ["node", "-e", NODE],
}
PROXIES = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy"), "http://127.0.0.1:9")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_proxy_in_the_environment_does_not_catch_the_boundary(
    client: str, installed: Installed, provider: Callable[..., Provider]
) -> None:
    command = CLIENTS[client]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    upstream = provider()
    env = PROXIES | {"NO_PROXY": "127.0.0.1,example.test", "OPENAI_API_KEY": "sk-none"}
    done = installed.run("run", *upstream.flags, "--", *command, env=env)
    assert done.status == 0, done.err
    assert "chat.completion" in done.out or "call 1" in done.out, done.out + done.err
    assert upstream.report()["count"] == 1


def test_no_proxy_keeps_its_entries_and_gains_loopback_in_both_spellings(installed: Installed) -> None:
    done = installed.run("run", "--", "sh", "-c", 'echo "$NO_PROXY $no_proxy"', env={"NO_PROXY": "example.test"})
    assert done.out.split() == ["example.test,127.0.0.1,localhost,::1"] * 2
    done = installed.run("run", "--", "sh", "-c", 'echo "$NO_PROXY $no_proxy"', env={"no_proxy": "a,*"})
    assert done.out.split() == ["*", "*"]


def test_two_runs_in_one_directory_have_each_their_own_record(installed: Installed) -> None:
    installed.run("run", "--", "true")
    first = os.readlink(installed.latest)
    installed.run("run", "--", "true")
    assert os.readlink(installed.latest) != first
    assert len(installed.run("ls", "--json").out.split('"docket"')) == 3
    assert (installed.directory / ".docket/.gitignore").read_text() == "*\n"


def test_the_demo_stops_its_agent_verifies_and_shows_a_changed_ledger_fail(installed: Installed) -> None:
    done = installed.run("demo", "--tamper")
    assert done.status == 0, done.out + done.err
    statuses = [line for line in done.out.splitlines() if line.startswith("(exit status")]
    assert statuses == ["(exit status 42)", "(exit status 0)", "(exit status 0)", "(exit status 1)"]
    assert "failed: ledger.hash: event" in done.out
    assert installed.verdict()["verdict"] == "verified"
