"""``docket run --hold-keys``: the provider gets the key, and nothing that the agent can look at holds it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from kit.installed import Installed, agent, environment

KEY = "sk-SENTINEL4f1cSENTINEL"
LOOK = r"""
import glob, os, pathlib
found = []
needle = b"SENTINEL" + b"4f1c"
for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
    try:
        shown = pathlib.Path(path).read_bytes()
    except OSError:
        continue
    if needle in shown:
        found.append(path)
for path in pathlib.Path(".").rglob("*"):
    if path.is_file() and needle in path.read_bytes():
        found.append(str(path))
assert needle.decode() not in str(dict(os.environ))
print(os.environ["OPENAI_API_KEY"] == os.environ["OPENAI_BASE_URL"].split("/")[4], found)
"""


@contextmanager
def provider() -> Iterator[tuple[str, list[str]]]:
    """A provider that answers chat requests; its URL, and the credentials that it was sent."""
    credentials: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            credentials.append(self.headers["authorization"])
            body = b'{"model":"gpt-4o","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}'
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", credentials
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


CALL = (
    "curl -s -H \"authorization: Bearer $OPENAI_API_KEY\" -H 'content-type: application/json' "
    '-d \'{"model":"gpt-4o","messages":[]}\' "$OPENAI_BASE_URL/chat/completions" >answer'
)


def test_the_provider_gets_the_key_and_nothing_else_holds_it(installed: Installed) -> None:
    with provider() as (url, credentials):
        done = installed.run(
            *["run", "--hold-keys", "--upstream", f"openai={url}/v1", "--"],
            *["sh", "-c", f'{CALL}\n"$0" -c "$1"', sys.executable, LOOK],
            env={"OPENAI_API_KEY": KEY, "COPY_OF_IT": f"x{KEY}y"},
        )
    assert done.status == 0, done.err
    assert credentials == [f"Bearer {KEY}"]
    assert done.out == "True []\n"
    for path in installed.directory.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path
    shown = [installed.run(*command, str(installed.latest)) for command in (["report"], ["verify"], ["doctor"])]
    assert KEY not in done.err + "".join(one.out + one.err for one in shown)
    assert installed.verdict()["verdict"] == "verified"


def test_who_may_not_open_docket_s_memory_is_told_that_the_key_is_held_and_else_where_it_is_not(
    installed: Installed,
) -> None:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can give up its rights, and setpriv does it")

    def said(env: dict[str, str]) -> tuple[str, str]:
        bare = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
        argv = [*bare, str(installed.docket), "run", "--quiet", "--hold-keys", "--", "true"]
        done = subprocess.run(
            argv, cwd=installed.directory, env=environment(env), capture_output=True, text=True, check=True
        )
        return done.stderr, installed.receipt()["enforcement"]["mechanisms"]["keys"]

    err, mechanism = said({"OPENAI_API_KEY": KEY})
    assert mechanism == "held: OPENAI_API_KEY held by docket, the agent has the run's token"
    assert "could read" not in err
    (installed.directory / ".env").write_text(f"OPENAI_API_KEY={KEY}\n")
    err, mechanism = said({})
    assert f"could read a key all the same: {installed.directory}/.env holds OPENAI_API_KEY" in err
    assert mechanism.startswith("not prevented")
    assert any("could read providers' keys" in limit for limit in installed.receipt()["limits"])
    assert KEY not in err


def test_an_sdk_works_with_the_token(installed: Installed) -> None:
    with provider() as (url, credentials):
        done = installed.run(
            *["run", "--hold-keys", "--upstream", f"openai={url}/v1", "--", *agent("patient_openai.py", "2")],
            env={"OPENAI_API_KEY": KEY},
        )
    assert credentials
    assert set(credentials) == {f"Bearer {KEY}"}
    assert KEY not in done.out + done.err


def test_wrong_calls_start_nothing_and_name_the_way_out(installed: Installed) -> None:
    for arguments, env, said in (
        (["--", "touch", "started"], {}, "no provider's key was found"),
        (["--", "touch", "started", KEY], {"OPENAI_API_KEY": KEY}, "command line holds the key of OPENAI_API_KEY"),
    ):
        done = installed.run("run", "--hold-keys", *arguments, env=env)
        assert done.status == 2
        assert said in done.err
        assert KEY not in done.err
    assert not (installed.directory / "started").exists()
