"""Very many connections, and ones that only wait: docket keeps room for itself and for calls, and says so once."""

from __future__ import annotations

import asyncio
import resource
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.boundary.crowd import HEAD_SECONDS, IDLE_SECONDS, MIN_CONNECTIONS, Crowd, most_connections
from docket.boundary.http1.agent_connection import Connection
from docket.boundary.http1.body import MAX_BODY, MAX_HELD
from docket.ledger.events import ModelDenied
from docket.supervisor.loop_complaints import LoopComplaints
from kit.boundary import Record, Stage, raw_upstream, run, stage


class Waiting:
    """A connection as the crowd sees it."""

    def __init__(self) -> None:
        self.idle = True
        self.begun = False
        self.requests = 0
        self.closed = False

    def close(self) -> None:
        self.closed = True


def joined(crowd: Crowd, *, idle: bool = True, begun: bool = False) -> Waiting:
    one = Waiting()
    one.idle, one.begun = idle, begun
    assert crowd.admit(cast(Connection, one))
    return one


def late(crowd: Crowd, seconds: float) -> list[Waiting]:
    return cast("list[Waiting]", crowd.overdue(int(seconds * 1e6)))


def test_a_head_that_was_begun_has_thirty_seconds_however_it_drips() -> None:
    crowd = Crowd()
    one = joined(crowd, begun=True)
    for second in range(HEAD_SECONDS):
        assert late(crowd, second) == []  # one more byte each second changes nothing
    assert late(crowd, HEAD_SECONDS) == [one]


def test_a_connection_without_a_request_is_ended_after_five_minutes() -> None:
    crowd = Crowd()
    one = joined(crowd)
    assert late(crowd, 0) == []
    assert late(crowd, IDLE_SECONDS - 1) == []
    assert late(crowd, IDLE_SECONDS) == [one]


def test_a_request_begins_the_time_anew_and_is_itself_never_cut_short() -> None:
    crowd = Crowd()
    one = joined(crowd)
    late(crowd, 0)
    one.idle = False
    assert late(crowd, 10 * IDLE_SECONDS) == []
    one.idle, one.requests = True, 1
    assert late(crowd, 10 * IDLE_SECONDS + 1) == []
    one.requests = 2  # a whole request between two looks
    assert late(crowd, 11 * IDLE_SECONDS + 1) == []
    assert late(crowd, 12 * IDLE_SECONDS + 1) == [one]


def test_a_newcomer_takes_the_place_of_the_one_that_was_idle_the_longest() -> None:
    crowd = Crowd(most=3)
    busy, first, second = joined(crowd, idle=False), joined(crowd), joined(crowd, begun=True)
    late(crowd, 1)
    joined(crowd)
    assert (busy.closed, first.closed, second.closed, crowd.turned_away) == (False, True, False, 0)


def test_where_no_one_is_plainly_idle_the_head_that_was_begun_first_makes_room() -> None:
    """Half heads are as cheap as connections: they must not lock out whoever sends a whole one."""
    crowd = Crowd(most=3)
    busy, first, second = joined(crowd, idle=False), joined(crowd, begun=True), joined(crowd, begun=True)
    late(crowd, 1)
    joined(crowd, begun=True)
    joined(crowd, begun=True)
    assert (busy.closed, first.closed, second.closed, crowd.turned_away) == (False, True, True, 0)


def test_where_nobody_only_waits_a_newcomer_is_turned_away_and_counted() -> None:
    crowd = Crowd(most=2)
    joined(crowd, idle=False)
    joined(crowd, idle=False)
    late(crowd, 1)
    assert not crowd.admit(cast(Connection, Waiting()))
    assert crowd.turned_away == 1


@given(st.integers(0, 2**20))
def test_docket_keeps_descriptors_for_itself_whatever_the_limit(descriptors: int) -> None:
    most = most_connections(descriptors)
    assert most >= MIN_CONNECTIONS
    assert most == MIN_CONNECTIONS or 2 * most + 60 <= descriptors


def test_a_loop_in_distress_says_each_condition_once_and_quotes_nothing() -> None:
    said: list[str] = []
    complain = LoopComplaints(said.append)
    loop = asyncio.new_event_loop()
    for _ in range(1000):
        full = OSError(24, "Too many open files")
        complain(loop, {"message": "socket.accept() out of system resource", "exception": full})
        complain(loop, {"message": "Task exception was never retrieved", "exception": ValueError("sk-secret")})
    loop.close()
    assert said == [
        "socket.accept() out of system resource: Too many open files (said once)",
        "Task exception was never retrieved: ValueError (said once)",
    ]


AGENT = """
import json, os, resource, socket, sys, urllib.request
base = os.environ["OPENAI_BASE_URL"]
host, port = base.split("/")[2].split(":")
print("LIMIT", *resource.getrlimit(resource.RLIMIT_NOFILE))
crowd = []
for _ in range(int(sys.argv[1])):
    one = socket.create_connection((host, int(port)))
    one.setblocking(False)
    crowd.append(one)
body = json.dumps({"model": "gpt-4o", "messages": [{"role": "user", "content": "x"}], "max_tokens": 5}).encode()
headers = {"Content-Type": "application/json", "Authorization": "Bearer k"}
asked = urllib.request.Request(base + "/chat/completions", body, headers)
print("CALL", urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked, timeout=30).status)
"""


def test_a_crowd_beyond_the_limit_of_open_files_neither_locks_the_agent_out_nor_fills_the_log(tmp_path: Path) -> None:
    """docket has a hard limit of 256 files; the agent, whose limits it does not touch, opens 200 idle connections."""
    (tmp_path / "agent.py").write_text(AGENT)
    with subprocess.Popen([sys.executable, "-m", "docket.sim.upstream"], stdout=subprocess.PIPE, text=True) as provider:
        assert provider.stdout is not None
        address = provider.stdout.readline().strip()
        command = [sys.executable, "-m", "docket", "run", "--upstream", f"openai={address}/v1", "--"]
        done = subprocess.run(
            [*command, sys.executable, "agent.py", "200"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (240, 256)),
        )
        provider.terminate()
    assert done.stdout.splitlines() == ["LIMIT 240 256", "CALL 200"], done.stderr
    assert done.returncode == 0
    assert len(done.stderr.splitlines()) < 8, done.stderr
    assert "Traceback" not in done.stderr


CALLER = """
import json, os, sys, urllib.request
base = os.environ["OPENAI_BASE_URL"]
body = json.dumps({"model": "gpt-4o", "messages": [{"role": "user", "content": "x"}], "max_tokens": 5}).encode()
headers = {"Content-Type": "application/json", "Authorization": "Bearer k"}
print(base.split("/")[2].split(":")[1], flush=True)
for line in sys.stdin:
    asked = urllib.request.Request(base + "/chat/completions", body, headers)
    print(urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked, timeout=15).status, flush=True)
"""
HALF = b"POST /r/token/openai/v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "


def gathered(port: int, count: int, sent: bytes = b"") -> list[socket.socket]:
    """So many connections to ``port``, each of which has ``sent`` that and waits."""
    crowd = []
    for _ in range(count):
        crowd.append(one := socket.create_connection(("127.0.0.1", port), timeout=10))
        one.sendall(sent)
    return crowd


def drip(crowd: list[socket.socket]) -> None:
    for one in crowd:
        with suppress(OSError):  # docket has ended it
            one.sendall(b"x")


def test_a_crowd_of_others_that_wait_or_drip_locks_nobody_out_though_docket_may_open_1024_files(tmp_path: Path) -> None:
    """1,100 idle connections and 1,100 half heads of another process, more than docket can hold of either."""
    (tmp_path / "agent.py").write_text(CALLER)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] < 4096:
        pytest.skip("this process may not open a crowd itself")
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, before[1]))
    command = [sys.executable, "-m", "docket", "run", "--upstream"]
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, before)
        upstream = [sys.executable, "-m", "docket.sim.upstream"]
        provider = stack.enter_context(subprocess.Popen(upstream, stdout=subprocess.PIPE, text=True))
        stack.callback(provider.terminate)
        assert provider.stdout is not None
        address = provider.stdout.readline().strip()
        docket = stack.enter_context(
            subprocess.Popen(
                [*command, f"openai={address}/v1", "--", sys.executable, "agent.py"],
                cwd=tmp_path,
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024)),
            )
        )
        stack.callback(docket.kill)
        assert docket.stdin is not None
        assert docket.stdout is not None
        port = int(docket.stdout.readline())

        def served() -> str:
            assert docket.stdin is not None
            assert docket.stdout is not None
            docket.stdin.write("\n")
            docket.stdin.flush()
            return docket.stdout.readline()

        assert served() == "200\n"
        idle = gathered(port, 1100)
        assert served() == "200\n"
        dripping = gathered(port, 1100, HALF)
        for _ in range(3):
            drip(dripping)
            assert served() == "200\n"
        for one in (*idle, *dripping):
            one.close()
        _, said = docket.communicate(timeout=30)
    assert docket.returncode == 0, said
    assert len(said.splitlines()) < 6, said
    assert "Traceback" not in said


def begun(stage: Stage, length: int) -> bytes:
    """The head of a call that announces a body of ``length`` bytes and waits to be asked for it."""
    lines = [f"POST {stage.prefix.decode()}/up/v1/chat/completions HTTP/1.1", "Host: b", "Expect: 100-continue"]
    return "\r\n".join([*lines, f"Content-Length: {length}", "", ""]).encode()


def test_a_crowd_with_requests_under_way_is_turned_away_and_recorded() -> None:
    async def main() -> tuple[bytes, Record]:
        async with stage("http://127.0.0.1:9", most_connections=1) as on:
            reader, writer = await on.connect()
            writer.write(begun(on, 9))
            await reader.readuntil(b"100 Continue\r\n")
            answer = await on.raw(b"GET / HTTP/1.1\r\n\r\n")
            writer.close()
        return answer, on.record

    answer, record = run(main())
    assert answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"Content-Length: %d\r\n" % len(body) in head + b"\r\n"
    (denied,) = [event for event in record.of(ModelDenied) if event.code == "too_many_connections"]
    assert (denied.count, denied.final) == (1, False)


def test_bodies_that_are_announced_and_not_sent_take_nothing_from_other_calls() -> None:
    async def main() -> int:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")

        async with raw_upstream(answer) as upstream, stage(upstream) as on:
            silent = [await on.connect() for _ in range(4)]
            for reader, writer in silent:
                writer.write(begun(on, MAX_BODY))
                await reader.readuntil(b"100 Continue\r\n")
            assert 4 * MAX_BODY > MAX_HELD
            status = (await on.call("/v1/chat/completions", b'{"model":"m","messages":[]}')).status
            for _, writer in silent:
                writer.close()
            return status

    assert run(main()) == 200
