"""Runs of ``docket run`` in which nothing is left to chance: ``python -m tools.scripted_runs OUT``.

Time stands still, every random byte is the same, and so are the agent's pid and what stat(2) says of its files: two
versions of docket that behave alike leave the same bytes. Of every run ``OUT`` then holds the ledger, the receipt, and
what docket said with its exit status; ``diff -rq`` of two such directories is the comparison. ``OUT/table.md`` has a
row a run.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

WORK = Path(tempfile.gettempdir()) / "docket-scripted"
"""Always the same place: a run records where it ran."""
PORT = 18917
"""Of the scripted provider: a run records its upstreams."""

BOOTSTRAP = """
import os, sys
from dataclasses import replace
from docket import clock
from docket.snapshot import manifest
manifest.seen_of = lambda status: "1 1 1 0 0 0 0"
line = manifest.Header.to_line
manifest.Header.to_line = lambda self: line(replace(self, device=1, inode=1, taken_ns=0))
from docket.process.outcome import Spawned
from docket.process.supervision import Guardian
os.urandom = lambda count: bytes([7]) * count
clock.SystemClock.monotonic_us = lambda self: 5_000_000
clock.SystemClock.unix_us = lambda self: 1_800_000_000_000_000
spawn = Guardian.spawn
async def spawned(self, *given):
    found = await spawn(self, *given)
    return Spawned(4242) if isinstance(found, Spawned) else found
Guardian.spawn = spawned
from docket.cli.main import main
main(sys.argv[1:])
"""
"""docket with its chances taken out."""

AGENT = """
import http.client, json, os, sys, urllib.parse
base = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
def ask(path, document=None, method="POST", step=None, raw=None, at=None):
    connection = http.client.HTTPConnection(base.hostname, base.port, timeout=20)
    body = raw if raw is not None else json.dumps(document).encode() if document is not None else None
    headers = {"Authorization": "Bearer sk-x", "Content-Type": "application/json"}
    if step is not None:
        headers["x-sim-step"] = json.dumps(step)
    try:
        connection.request(method, (base.path if at is None else at) + path, body, headers)
        answer = connection.getresponse()
        data = answer.read()
        print(method, path, answer.status, len(data) if answer.status < 300 else data.decode()[:300], flush=True)
        return data
    except (http.client.HTTPException, OSError) as error:
        print(method, path, type(error).__name__, flush=True)
def chat(stream=False, step=None, model="gpt-4o", **more):
    messages = [{"role": "user", "content": "hello"}]
    return ask("/chat/completions", {"model": model, "stream": stream, "max_tokens": 50, "messages": messages, **more},
               step=step)
own = urllib.parse.urlsplit(os.environ["DOCKET_EVENTS_URL"]).path.removesuffix("/events")
"""
"""What every agent below begins with."""

EVERY_KIND = """
chat()
chat(stream=True)
chat(stream=True, stream_options={"include_usage": True})
ask("/responses", {"model": "gpt-4o", "input": "hi", "stream": True})
ask("/embeddings", {"model": "text-embedding-3-small", "input": "hi"})
ask("/models", method="GET")
ask("/images/generations", {"model": "dall-e-3", "prompt": "x"})
chat(model="o1-denied")
chat(model="unheard-of-model")
for fault in ("reset", "close", "cut", "error-event", "no-terminator", "no-usage"):
    chat(stream=True, step={"fault": fault})
chat(step={"status": 500})
chat(step={"status": 429, "headers": {"retry-after": "3"}})
ask("/chat/completions", raw=b"no json")
ask("/events", {"type": "note", "text": "said"}, at=own)
ask("/events", {"type": "boast"}, at=own)
ask("/nothing", {}, at=own)
ask("/budget", method="GET", at=own)
ask("/v1/models", method="GET", at="/r/wrong/openai")
ask("/v1/models", method="GET", at=base.path.removesuffix("/openai/v1") + "/elsewhere")
ask("/livez", method="GET", at="/docket")
chat()
"""
UNTIL_STOPPED = """
import signal, threading
stopped = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stopped.set())
chat()
chat()
stopped.wait()
"""
RECORDED = "[evidence]\nrecord_requests = true\nrecord_responses = true\n"
ADDED = "[usage]\nrequest_stream_usage = true\n"
CACHED = "[cache]\nenabled = true\n"


@dataclass(frozen=True, kw_only=True)
class Scripted:
    """One run; ``agent`` goes on behind ``AGENT``, ``argv`` replaces it."""

    name: str
    flags: tuple[str, ...] = ()
    agent: str = ""
    argv: tuple[str, ...] | None = None
    policy: str = ""


def runs(port: int) -> tuple[Scripted, ...]:
    denying = '[models]\ndeny = ["o1-*"]\n'
    return (
        Scripted(name="every kind of request", agent=EVERY_KIND, policy=denying),
        Scripted(name="bodies recorded", agent="chat()\nchat(stream=True)\n", policy=RECORDED),
        Scripted(name="usage asked for", agent="chat(stream=True)\n", policy=ADDED),
        Scripted(name="answers given again", agent="chat()\nchat()\nchat(stream=True)\n", policy=CACHED),
        Scripted(name="a USD cap holds what is unpriced", flags=("--max-usd", "1"), agent=EVERY_KIND, policy=denying),
        Scripted(name="stopped by a cap", flags=("--max-calls", "2"), agent=UNTIL_STOPPED),
        Scripted(name="denied at a cap", flags=("--max-calls", "1", "--on-breach", "deny"), agent="chat()\nchat()\n"),
        Scripted(
            name="breaker opens",
            policy="[resilience]\nbreaker_threshold = 2\n",
            agent='chat(step={"status": 500})\nchat(step={"status": 500})\nchat()\n',
        ),
        Scripted(name="agent says nothing", agent=""),
        Scripted(name="agent exits 3", agent="sys.exit(3)\n"),
        Scripted(name="agent killed", agent="os.kill(os.getpid(), 9)\n"),
        Scripted(
            name="operator stops it",
            agent="import time\nos.kill(int(open('/proc/%d/stat' % os.getppid())"
            ".read().split()[3]), 15)\ntime.sleep(60)\n",
        ),
        Scripted(name="quiet", flags=("--quiet",), agent="chat()\n"),
        Scripted(name="command not found", argv=("no-such-command",)),
        Scripted(name="command not executable", argv=("./docket.toml",)),
        Scripted(name="no command", argv=()),
        Scripted(name="unknown flag", flags=("--max-usb", "1")),
        Scripted(name="bad amount", flags=("--max-usd", "much")),
        Scripted(name="unknown policy key", policy="[caps]\nmax_usb = 1\n"),
        Scripted(name="policy is no TOML", policy="[caps"),
        Scripted(name="no policy file", flags=("--policy", "nowhere.toml")),
        Scripted(name="port in use", flags=("--port", str(port))),
        Scripted(name="nothing to resume", flags=("--resume", "latest")),
        Scripted(name="no such directory", flags=("--cwd", "nowhere")),
        Scripted(name="unknown agent", flags=("--agent", "nobody")),
    )


def play(scripted: Scripted, out: Path, work: Path = WORK, port: int = PORT) -> tuple[int, str]:
    """Run one in ``work``, before the provider at ``port``. Return its exit status and what it said on stderr.

    Its files are then in ``out``, which must not be there yet.
    """
    records = work.with_name(work.name + "-runs")
    shutil.rmtree(records, ignore_errors=True)
    work.mkdir(exist_ok=True)
    out.mkdir(parents=True)
    upstream = f'[upstreams.openai]\nprotocol = "openai"\nbase_url = "http://127.0.0.1:{port}/v1"\n'
    (work / "docket.toml").write_text(scripted.policy + upstream)
    (work / "agent.py").write_text(AGENT + scripted.agent)
    argv = ("python3", "agent.py") if scripted.argv is None else scripted.argv
    command = [sys.executable, "-c", BOOTSTRAP, "run", "--docket-dir", str(records), *scripted.flags, "--", *argv]
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    done = subprocess.run(
        command, cwd=work, env=kept | {"HOME": str(work)}, capture_output=True, text=True, timeout=120
    )
    (out / "said.txt").write_text(f"exit {done.returncode}\n{done.stdout}--\n{done.stderr}")
    for name in ("ledger.jsonl", "receipt.json"):
        for found in sorted(records.glob(f"runs/*/{name}")):
            shutil.copy(found, out / name)
    return done.returncode, done.stderr


@contextmanager
def provider(port: int = PORT) -> Iterator[int]:
    """A scripted provider at ``port`` (0: any free one); gives the port."""
    command = [sys.executable, "-m", "docket.sim.upstream", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline().strip().rpartition(":")[2])
        finally:
            process.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", help="the one run of this name")
    options = parser.parse_args()
    rows = ["| run | exit | said on stderr |", "| --- | --: | --- |"]
    with provider() as port:
        for scripted in runs(port):
            if options.only in (None, scripted.name):
                status, said = play(scripted, options.out / scripted.name.replace(" ", "-"))
                rows.append(f"| {scripted.name} | {status} | {'<br>'.join(said.splitlines())} |")
    (options.out / "table.md").write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
