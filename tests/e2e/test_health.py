"""What a kubelet and a Prometheus see of a real run while its provider is down, and of any model name."""

from __future__ import annotations

import json
import re
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from docket.chaos.lab import Lab, Run

LABELS = Path(__file__).parents[1] / "fixtures/metrics/labels.json"
NAMES = """
import http.client, json, os, sys
from urllib.parse import urlsplit
base = urlsplit(os.environ["OPENAI_BASE_URL"])
connection = http.client.HTTPConnection(base.hostname, base.port)
for name in json.load(open(sys.argv[1]))["model_names"]:
    body = json.dumps({"model": name, "messages": []})
    connection.request("POST", base.path + "/chat/completions", body, {"content-type": "application/json"})
    connection.getresponse().read()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path) as lab:
        yield lab


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def get(port: int, route: str, accept: str = "*/*") -> tuple[int, str]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/docket/{route}", headers={"Accept": accept})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def ledger(run: Run) -> list[bytes]:
    """The events so far, without what the agent itself asserts, which comes when it likes."""
    lines = [path.read_bytes().splitlines() for path in run.directory.glob("runs/*/ledger.jsonl")]
    return [line for of_one in lines for line in of_one if not line.startswith(b'{"by":"agent"')]


def test_an_outage_makes_a_run_not_ready_and_never_not_alive(lab: Lab) -> None:
    loopback, second = free_port(), free_port()
    provider = lab.provider({"status": 500, "times": 0})
    run = lab.run(
        provider,
        policy="[resilience]\nbreaker_threshold = 2\nbreaker_cooldown_seconds = 3600\n",
        agent={"MODE": "backoff", "MAX_SLEEP": "600"},
        flags=["--port", str(loopback), "--health-listen", f"127.0.0.1:{second}"],
    )
    run.until_event("x-docket.breaker-open")
    run.until_event("model.denied")
    before, asked = ledger(run), provider.requests()
    for port in (loopback, second):
        assert get(port, "livez")[0] == get(port, "startupz")[0] == get(port, "healthz")[0] == 200
        status, body = get(port, "readyz")
        assert status == 503
        assert [reason["code"] for reason in json.loads(body)["reasons"]] == ["breaker_open"]
        assert json.loads(body)["upstreams"] == [{"name": "openai", "breaker": "open"}]
        assert 'docket_breaker_state{upstream="openai"} 2.0' in get(port, "metrics")[1]
    assert provider.requests() == asked, "probes call no upstream"
    assert ledger(run) == before, "probes write no event"
    assert get(second, "x")[0] == 404
    token = re.search(rb"/r/([\w-]{16,})/", b"".join(ledger(run)))
    for route in ("healthz", "metrics", "readyz"):
        assert "/r/" not in get(second, route)[1]
        assert token is None or token[1].decode() not in get(second, route)[1]
    run.process.terminate()
    run.wait()


@pytest.mark.parametrize(
    ("policy", "faults", "until", "code"),
    [
        ("[caps]\nmax_model_calls = 2\non_breach = 'deny'\n", None, "cap.exceeded", "cap_spent"),
        ("", "enospc=88KiB", "model.response", "ledger_not_writable"),
        ("[resilience]\nmin_free_bytes = 1099511627776\n", None, "model.response", "low_space"),
    ],
)
def test_a_spent_cap_a_full_disk_and_low_space_are_reasons_and_the_process_is_alive(
    policy: str, faults: str | None, until: str, code: str, lab: Lab
) -> None:
    port = free_port()
    agent = f"{sys.executable} -m docket.sim.agent; echo done >&2; exec sleep 600"
    run = lab.run(
        lab.provider(),
        policy=policy,
        faults=faults,
        agent={"CALLS": "12"},
        argv=("sh", "-c", agent),
        flags=["--health-listen", f"127.0.0.1:{port}"],
    )
    run.until_event(until)
    run.until(lambda: "done" in run.said(), "the end of the agent's calls")
    status, body = get(port, "readyz")
    assert status == 503
    assert code in [reason["code"] for reason in json.loads(body)["reasons"]]
    assert get(port, "livez")[0] == get(port, "startupz")[0] == 200
    run.process.terminate()
    run.wait()


def test_any_model_name_leaves_metrics_that_parse(lab: Lab) -> None:
    port = free_port()
    run = lab.run(
        lab.provider(),
        argv=(sys.executable, "-c", NAMES, str(LABELS)),
        flags=["--health-listen", f"127.0.0.1:{port}"],
    ).wait()
    assert run.status == 0, run.said()
    names = json.loads(LABELS.read_text())["model_names"]
    assert len(run.evidence.of("model.request")) == len(names)
    assert run.evidence.sum_of("docket_calls_total") == len(names)
    text = run.evidence.metrics_file.read_text()
    assert len([line for line in text.splitlines() if line.startswith("docket_calls_total")]) <= len(names)
    assert run.evidence.verdict == "verified"
