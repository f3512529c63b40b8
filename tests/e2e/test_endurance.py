"""An outage ridden out: the provider comes back while a real SDK waits, and the record shows what it took."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Callable

from kit.installed import Installed, Provider, environment

AGENT = """
import openai
client = openai.OpenAI(api_key="k", max_retries=0, timeout=60)
print(client.chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": "hi"}]).model)
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_call_waits_until_its_provider_is_back_and_the_receipt_says_so(
    installed: Installed, provider: Callable[..., Provider]
) -> None:
    port = free_port()
    (installed.directory / "docket.toml").write_text("[endurance]\nbase_seconds = 0.2\nmax_seconds = 1\n")
    url = f"openai=http://127.0.0.1:{port}/v1"
    run = subprocess.Popen(
        [str(installed.docket), "run", "--endure", "50s", "--upstream", url, "--", str(installed.python), "-c", AGENT],
        cwd=installed.directory,
        env=environment({}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not any(b"retry-scheduled" in path.read_bytes() for path in installed.directory.glob(".docket/runs/*/led*")):
        assert run.poll() is None
    provider("--port", str(port))
    out, err = run.communicate(timeout=60)
    assert (run.returncode, out.startswith("gpt-4o-mini")) == (0, True), err
    receipt = installed.receipt()
    tries = receipt["totals"]["calls"]
    assert tries >= 2
    assert receipt["totals"]["errors"] == tries - 1
    assert receipt["totals"]["by_source"]["reported"] == 1
    requests = [event["data"] for event in installed.events("model.request")]
    assert [request.get("of") for request in requests] == [None] + [1] * (tries - 1)
    assert "tried again" in installed.run("report", "latest").out
    verdict = json.loads(installed.run("verify", "--json", "latest").out)
    assert [check for check in verdict["checks"] if check["status"] == "fail"] == []


def test_a_wrong_time_is_named(installed: Installed) -> None:
    done = installed.run("run", "--endure", "soon", "--", "true")
    assert done.status == 2
    assert "--endure" in done.err
