"""What ``deploy/prometheus`` ships, checked by Prometheus' own tools and by a real server that scrapes and is asked."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from docket.boundary.health import Health
from docket.boundary.health_listener import HealthListener
from docket.control.readiness import Status
from docket.telemetry.metrics import Metrics

DEPLOY = Path(__file__).parents[2] / "deploy/prometheus"
STATUS = Status(docket="DKT-20261130-AAAAAAAAAA", free_bytes=2**30, breakers={"main": "open"}, inflight=3)
NEEDED = ["prometheus", "promtool"]
pytestmark = pytest.mark.skipif(not all(map(shutil.which, NEEDED)), reason="Debian's package prometheus is missing")


def run(*command: str) -> str:
    done = subprocess.run(command, cwd=DEPLOY, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def dashboard_expressions() -> list[str]:
    panels = json.loads((DEPLOY / "grafana-dashboard.json").read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def test_configuration_and_rules_are_valid_and_fire_when_they_should() -> None:
    run("promtool", "check", "config", "prometheus.yml")
    run("promtool", "test", "rules", "rules_test.yml")


def test_every_alert_has_a_test() -> None:
    alerts = re.findall(r"alert: (\w+)", (DEPLOY / "rules.yml").read_text())
    tested = (DEPLOY / "rules_test.yml").read_text()
    assert len(alerts) == len(set(alerts)) == 9
    assert all(f"alertname: {alert}" in tested for alert in alerts)


def test_dashboard_and_rules_name_only_metrics_that_exist() -> None:
    async def collected() -> set[str]:
        return {family.name for family in Metrics(lambda: STATUS).collect()}

    names = asyncio.run(collected())
    text = " ".join(dashboard_expressions()) + (DEPLOY / "rules.yml").read_text()
    used = {re.sub("_(total|bucket)$", "", name) for name in re.findall(r"\bdocket_[a-z_]+", text)}
    assert used == names, "each metric exists and is shown somewhere"


def test_a_real_prometheus_scrapes_a_run_and_answers_every_query_of_the_dashboard(tmp_path: Path) -> None:
    async def main() -> None:
        metrics = Metrics(lambda: STATUS)
        metrics.observe_sync(200)
        listener = HealthListener(Health(lambda: STATUS, metrics.render))
        port = await listener.start(socket.create_server(("127.0.0.1", 0)))
        config = (DEPLOY / "prometheus.yml").read_text()
        config = config.replace("15s", "100ms").replace("127.0.0.1:9464", f"127.0.0.1:{port}")
        (tmp_path / "prometheus.yml").write_text(config.replace("- rules.yml", f"- {DEPLOY / 'rules.yml'}"))
        server = await asyncio.create_subprocess_exec(
            "prometheus",
            f"--config.file={tmp_path / 'prometheus.yml'}",
            f"--storage.tsdb.path={tmp_path / 'data'}",
            "--web.listen-address=127.0.0.1:0",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            limit=2**20,
        )
        try:
            assert server.stderr is not None
            web = None
            async for line in server.stderr:
                found = re.search(rb"Listening on.* address=(127\.0\.0\.1:\d+)", line)
                if found:
                    web = found[1].decode()
                if web and b"Server is ready" in line:
                    break
            assert web is not None
            await asyncio.wait_for(asyncio.to_thread(questions, web), 60)
        finally:
            server.kill()
            await server.wait()
            await listener.close()

    asyncio.run(main())


def ask(web: str, expression: str) -> list[dict[str, object]]:
    query = urllib.parse.urlencode({"query": expression})
    with urllib.request.urlopen(f"http://{web}/api/v1/query?{query}", timeout=10) as answer:
        document = json.load(answer)
    assert document["status"] == "success"
    result: list[dict[str, object]] = document["data"]["result"]
    return result


def questions(web: str) -> None:
    """Wait for the first scrape, then ask: the figures are those of the run."""
    while not (states := ask(web, "docket_breaker_state")):
        pass
    assert [(s["metric"]["upstream"], s["value"][1]) for s in states] == [("main", "2")]  # type: ignore[index,call-overload]
    assert ask(web, "docket_inflight")[0]["value"][1] == "3"  # type: ignore[index]
    assert ask(web, 'up{job="docket"}')[0]["value"][1] == "1"  # type: ignore[index]
    for expression in dashboard_expressions():
        ask(web, expression)
