"""The health routes over real sockets, and the second listener that serves nothing else."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import pytest

from docket.boundary.health import Health
from docket.boundary.health_listener import HealthListener
from docket.boundary.listener import bind
from docket.control.readiness import CapUse, Status
from docket.errors import UsageError
from docket.telemetry.metrics import Metrics

FINE = Status(docket="DKT-20261130-AAAAAAAAAA", free_bytes=2**30, breakers={"main": "closed"})
GET_TWO_ROUTES = """
import sys, urllib.error, urllib.request
for path in ("/docket/readyz", "/docket/metrics", "/r/token/main/v1/chat/completions"):
    try:
        print(urllib.request.urlopen(f"http://{sys.argv[1]}{path}", timeout=10).status)
    except urllib.error.HTTPError as error:
        print(error.code)
"""


def serve(
    status: Callable[[], Status], ask: Callable[[int], object], host: str = "127.0.0.1", name: str = ""
) -> object:
    """Run the second listener on a real socket while ``ask`` talks to its port from a thread."""

    async def main() -> object:
        listener = HealthListener(Health(status, Metrics(status).render), name)
        port = await listener.start(bind(host, 0, named="--health-listen", hint=""))
        try:
            return await asyncio.to_thread(ask, port)
        finally:
            await listener.close()

    return asyncio.run(main())


def get(port: int, path: str, method: str = "GET", accept: str | None = None) -> tuple[int, str, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, path, headers={} if accept is None else {"Accept": accept})
    answer = connection.getresponse()
    found = answer.status, answer.headers["Content-Type"], answer.read()
    connection.close()
    return found


@pytest.mark.parametrize(
    ("status", "readyz", "startupz", "code"),
    [
        (FINE, 200, 200, None),
        (replace(FINE, breakers={"main": "open"}), 503, 200, "breaker_open"),
        (replace(FINE, caps={"max_usd": CapUse(limit=Decimal(1), booked=Decimal(1))}), 503, 200, "cap_spent"),
        (replace(FINE, ledger_writable=False), 503, 200, "ledger_not_writable"),
        (replace(FINE, free_bytes=1), 503, 200, "low_space"),
        (replace(FINE, listening=False), 503, 503, "not_listening"),
    ],
)
def test_alive_is_not_ready(status: Status, readyz: int, startupz: int, code: str | None) -> None:
    def ask(port: int) -> None:
        assert get(port, "/docket/livez")[0] == 200, "a provider outage never gets the process killed"
        assert get(port, "/docket/startupz")[0] == startupz
        found, kind, body = get(port, "/docket/readyz")
        assert (found, kind) == (readyz, "application/json")
        answer = json.loads(body)
        assert [reason["code"] for reason in answer["reasons"]] == ([code] if code else [])
        assert get(port, "/docket/healthz")[0] == 200
        assert b"docket_ready %d.0\n" % (readyz == 200) in get(port, "/docket/metrics")[2]

    serve(lambda: status, ask)


def test_the_second_listener_serves_nothing_else() -> None:
    def ask(port: int) -> None:
        for path in (
            "/",
            "/docket",
            "/docket/",
            "/docket/events",
            "/r/t/main/v1/messages",
            "/docket/livez/x",
            "/docket/docket/livez",
            "//livez",
        ):
            assert get(port, path)[0] == 404, path
        for method in ("POST", "PUT", "DELETE"):
            assert get(port, "/docket/readyz", method)[0] == 405
        status, kind, body = get(port, "/docket/metrics", "HEAD", "application/openmetrics-text; version=1.0.0")
        assert (status, body) == (200, b"")
        assert kind.startswith("application/openmetrics-text; version=1.0.0")
        assert get(port, "/docket/livez?x=1")[0] == 200

    serve(lambda: FINE, ask)


def test_probes_and_scrapers_find_every_route_at_the_root_too() -> None:
    def ask(port: int) -> None:
        for name in ("livez", "startupz", "readyz", "healthz", "metrics"):
            at_root, below = (get(port, f"{prefix}{name}") for prefix in ("/", "/docket/"))
            assert (at_root[0], at_root[:2]) == (200, below[:2]), name

    serve(lambda: FINE, ask)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:9464", 200),
        ("10.1.2.3:9464", 200),
        ("[::1]:9464", 200),
        ("localhost", 200),
        ("agent:9464", 200),
        ("probe.example:9464", 200),
        ("rebound.example", 421),
        ("127.0.0.1.rebound.example:9464", 421),
        ("localhost.rebound.example", 421),
        ("probe.example.rebound.example", 421),
        ("[::1].rebound.example", 421),
    ],
)
def test_a_name_that_could_be_rebound_reads_nothing(host: str, status: int) -> None:
    def ask(port: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", "/docket/metrics", headers={"Host": host})
        assert connection.getresponse().status == status
        connection.close()

    serve(lambda: FINE, ask, name="probe.example")


def test_an_address_that_is_taken_is_the_operators_error() -> None:
    def ask(port: int) -> None:
        with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1 port {port}"):
            bind("127.0.0.1", port, named="--health-listen", hint="")

    serve(lambda: FINE, ask)


def test_a_prober_in_another_network_namespace_reaches_it() -> None:
    """A veth pair into a namespace of its own stands for the kubelet's side."""
    if os.geteuid() != 0 or not shutil.which("ip"):
        pytest.skip("needs root and ip(8) to make a network namespace")
    pid = os.getpid()
    space, host, peer = f"docket-{pid}", f"dk{pid}a", f"dk{pid}b"
    here, there = (f"10.213.{pid // 64 % 256}.{pid % 64 * 4 + n}" for n in (1, 2))
    if subprocess.run(["ip", "netns", "add", space], capture_output=True, check=False).returncode:
        pytest.skip("network namespaces cannot be made here")
    try:
        inside = ["ip", "netns", "exec", space]
        for command in (
            ["ip", "link", "add", host, "type", "veth", "peer", "name", peer, "netns", space],
            ["ip", "addr", "add", f"{here}/30", "dev", host],
            ["ip", "link", "set", host, "up"],
            [*inside, "ip", "addr", "add", f"{there}/30", "dev", peer],
            [*inside, "ip", "link", "set", peer, "up"],
        ):
            subprocess.run(command, check=True, capture_output=True)

        def ask(port: int) -> None:
            command = [*inside, sys.executable, "-c", GET_TWO_ROUTES, f"{here}:{port}"]
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
            assert done.stdout.split() == ["200", "200", "404"]

        serve(lambda: FINE, ask, host=here)
    finally:
        subprocess.run(["ip", "netns", "del", space], check=False)
        subprocess.run(["ip", "link", "del", host], check=False, capture_output=True)
