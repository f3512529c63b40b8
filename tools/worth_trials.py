"""What `docket explain` is worth: for each rule an agent under a real docket, before and after its remedy.

``python -m tools.worth_trials > docs/measurements/worth-YYYY-MM-DD.md``. The provider is a toy that counts four
characters as a token, keeps prefixes of 1024 tokens or more as a cache, stops at ``max_tokens``, takes its time where
asked to, and keeps its own account at the prices of the built-in table. Agents are real processes.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from docket.clock import SystemClock
from docket.primitives.instant import timestamp

PRELUDE = """
import json, os, sys, time, threading, urllib.error, urllib.request
def post(url, body, timeout=30):
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return json.load(answer)
def ask(text, model="gpt-4o", timeout=30, **more):
    body = {"model": model, "messages": [{"role": "user", "content": text}], **more}
    return post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, timeout)
def tell(kind, **said):
    post(os.environ["DOCKET_EVENTS_URL"], {"type": kind, **said})
def words(tokens, seed=""):
    return (seed + "lorem ipsum dolor sit " * tokens)[: 4 * tokens]
def pause(seconds):
    threading.Event().wait(seconds)
def refused(call):
    try:
        call()
    except OSError:
        return True
    return False
"""


@dataclass(frozen=True)
class Trial:
    """One rule: what the agent did, what the remedy made of it, as programs."""

    rule: str
    before: str
    after: str
    what: str
    policy: str = ""


TRIALS = (
    Trial(
        "runaway-loop",
        "for _ in range(12): ask(words(2000) + 'is the build done? SAY 100')",
        "seen = [ask(words(2000) + 'is the build done? SAY 100') for _ in range(2)]",
        "asked one question until it got another answer; stops after the second like answer",
    ),
    Trial(
        "retry-storm",
        "while refused(lambda: ask('DOWN first')): pause(0.02)",
        "while refused(lambda: ask('DOWN second')): pause(1.2)",
        "tried a provider that was down for a second again at once; waits as long as Retry-After says",
    ),
    Trial(
        "tool-failure-loop",
        """
for turn in range(8):
    ask(words(3000, f"turn {turn} ") + "SAY 200")
    tell("tool.result", name="edit", is_error=turn < 7)
""",
        """
for turn in range(3):
    ask(words(3000, f"turn {turn} ") + "SAY 200")
    tell("tool.result", name="edit", is_error=turn < 2)
""",
        "called a tool in the same wrong way seven times; changes the call after two failures",
    ),
    Trial(
        "cache-miss",
        "for turn in range(10): ask(f'it is {turn}:00. ' + words(8000 + 600 * turn) + 'SAY 300')",
        "for turn in range(10): ask(words(8000 + 600 * turn) + f'it is {turn}:00. SAY 300')",
        "put the time at the head of its prompt; puts it at the end",
    ),
    Trial(
        "fat-context",
        "for turn in range(6): ask(words(110000, f'file {turn} ') + 'SAY 60')",
        "for turn in range(6): ask(words(4000, f'file {turn} ') + 'SAY 60')",
        "sent the whole repository with each question; sends the file that it is about",
    ),
    Trial(
        "premium-for-small-calls",
        "for turn in range(30): ask(words(300, f'title of {turn} ') + 'SAY 20')",
        "for turn in range(30): ask(words(300, f'title of {turn} ') + 'SAY 20', model='gpt-4o-mini')",
        "made titles with gpt-4o; makes them with gpt-4o-mini",
    ),
    Trial(
        "concentration",
        "for turn in range(25): ask(f'step {turn} SAY ' + ('9000' if turn % 10 == 4 else '150'))",
        "for turn in range(25): ask(f'step {turn} SAY ' + ('9000' if turn % 10 == 4 else '150'), max_tokens=800)",
        "let three answers become as long as they liked; bounds the output (and gets those three answers short)",
    ),
    Trial(
        "truncated-answers",
        """
for task in range(6):
    for limit in (100, 200, 400, 800):
        got = ask(words(1500, f"task {task} {limit} ") + "SAY 500", max_tokens=limit)
        if got["choices"][0]["finish_reason"] == "stop": break
""",
        "for task in range(6): ask(words(1500, f'task {task} ') + 'SAY 500', max_tokens=800)",
        "began with a small limit of output and started anew with twice as much; begins with enough",
    ),
    Trial(
        "idle-spend",
        """
for task in range(4):
    refused(lambda: ask(words(2000, f"task {task} ") + "SAY 300 SLOW", timeout=0.2))
    ask(words(2000, f"again {task} ") + "SAY 300 SLOW")
""",
        "for task in range(4): ask(words(2000, f'task {task} ') + 'SAY 300 SLOW')",
        "hung up before the answer came and asked again; waits for it",
    ),
    Trial(
        "policy-denials",
        """
for turn in range(8):
    refused(lambda: ask(f"step {turn} SAY 50", model="o1-pro"))
    ask(f"step {turn} SAY 50", model="gpt-4o-mini")
""",
        "for turn in range(8): ask(f'step {turn} SAY 50', model='gpt-4o-mini')",
        "tried a forbidden model before every call; uses the one that is allowed",
        '[models]\nallow = ["gpt-4o-mini"]\n',
    ),
    Trial(
        "write-scope",
        "ask('SAY 20'); open('.env', 'w').write('changed')",
        "ask('SAY 20'); open('out.txt', 'w').write('changed')",
        "wrote into a protected file; writes beside it",
        '[files]\ndeny_write = [".env"]\n',
    ),
)


PRICES = {"gpt-4o": (250, 125, 1000), "gpt-4o-mini": (15, 7.5, 60)}
"""Input, cached input and output of the toy's account, in hundredths of a USD for a million tokens."""


def common(text: str, other: str) -> int:
    """The number of characters with which both begin."""
    low, high = 0, min(len(text), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if text[:middle] == other[:middle] else (low, middle - 1)
    return low


class Toy(BaseHTTPRequestHandler):
    """The provider."""

    protocol_version = "HTTP/1.1"
    prompts: list[str]
    down: dict[str, int]
    account: list[float]
    clock = SystemClock()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        text = "".join(message["content"] for message in body["messages"])
        if "DOWN" in text and self.clock.monotonic_us() - self.down.setdefault(text, self.clock.monotonic_us()) < 1e6:
            self._answer(503, {"error": {"message": "overloaded"}}, {"retry-after": "1"})
            return
        if "SLOW" in text:
            threading.Event().wait(0.6)
        shared = max((common(text, old) for old in self.prompts), default=0) // 4
        self.prompts.append(text)
        cached = shared // 128 * 128 if shared >= 1024 else 0
        said = re.search(r"SAY (\d+)", text)
        wanted, limit = int(said[1]) if said else 10, body.get("max_tokens", 1 << 30)
        usage = {
            "prompt_tokens": len(text) // 4,
            "completion_tokens": min(wanted, limit),
            "total_tokens": len(text) // 4 + min(wanted, limit),
            "prompt_tokens_details": {"cached_tokens": cached},
        }
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": "x"},
            "finish_reason": "stop" if wanted <= limit else "length",
        }
        fresh, read, said_tokens = PRICES[body["model"]]
        self.account.append((len(text) // 4 - cached) * fresh + cached * read + min(wanted, limit) * said_tokens)
        answer = {"id": "c", "object": "chat.completion", "model": body["model"], "choices": [choice], "usage": usage}
        self._answer(200, answer, {})

    def _answer(self, status: int, document: Any, headers: dict[str, str]) -> None:
        data = json.dumps(document).encode()  # noqa: TID251 a provider of its own, not docket's canonical form
        self.send_response(status)
        for name, value in {"content-type": "application/json", "content-length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        with suppress(OSError):  # an agent that hung up
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Server(ThreadingHTTPServer):
    """The toy's server; agents that hang up are part of the trial."""

    def handle_error(self, *_: object) -> None:
        """Say nothing."""


def play(trial: Trial, program: str, room: Path) -> dict[str, Any]:
    """Run ``program`` under docket in the new directory ``room``; what its receipt and explain say."""
    room.mkdir()
    (room / ".env").write_text("KEY=x")
    (room / "agent.py").write_text(PRELUDE + program)
    (room / "docket.toml").write_text(trial.policy)
    handler = type("Fresh", (Toy,), {"prompts": [], "down": {}, "account": []})
    server = Server(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    docket = [sys.executable, "-m", "docket"]
    try:
        subprocess.run(
            [*docket, "run", "--quiet", "--upstream", f"openai=http://127.0.0.1:{server.server_port}/v1", "--",
             sys.executable, "agent.py"],
            cwd=room, check=True, capture_output=True, env=os.environ | {"OPENAI_API_KEY": "sk-none"},
        )  # fmt: skip
    finally:
        server.shutdown()
        server.server_close()
    receipt = json.loads((room / ".docket/latest/receipt.json").read_text())
    told = json.loads(subprocess.run([*docket, "explain", "--json"], cwd=room, check=True, capture_output=True).stdout)
    assert told[0]["findings"] == receipt["findings"], "explain and the receipt find the same"
    receipt["account"] = sum(handler.account) / 1e8
    return receipt


def row(trial: Trial, before: dict[str, Any], after: dict[str, Any]) -> str:
    """One line of the table."""
    found = [each for each in before["findings"] if each["rule"] == trial.rule]
    impact = found[0]["impact"] if found else {"is": "not found"}
    still = "yes" if any(each["rule"] == trial.rule for each in after["findings"]) else "no"
    others = sorted({each["rule"] for each in before["findings"]} - {trial.rule})
    costs = [each["totals"].get("cost_usd", "unknown") for each in (before, after)]
    calls = [f"{each['totals']['calls']} + {each['totals']['denied']}" for each in (before, after)]
    saved = f"{before['account'] - after['account']:.6f}".rstrip("0").rstrip(".")
    told = f"{impact['is']} {impact.get('usd', '')}".strip()
    return (
        f"| `{trial.rule}` | {trial.what} | {told} | {costs[0]} | {costs[1]} | {saved} | {calls[0]} | {calls[1]} "
        f"| {still} | {', '.join(others) or 'none'} |"
    )


INTRODUCTION = """`python -m tools.worth_trials`: for each rule an agent in which it finds something, and the same task
after the remedy that the finding names; each a real process under a real `docket run`. *Figure*: what the finding says
that it cost. *Before*, *after*: the cost in the receipts. *Saved*: the difference of the provider's accounts. All in
USD. *Calls*: sent + refused. *Also found*: what other rules found before."""


def main() -> None:
    """Print the page."""
    day = datetime.date.fromisoformat(timestamp(SystemClock().unix_us())[:10])
    print(f"# What findings are worth, {day}\n\n{INTRODUCTION}\n")
    head = (
        "rule | the agent, and the remedy | figure | before | after | saved | calls | after | still found | also found"
    )
    print(f"| {head} |\n|{' --- |' * 10}")
    with tempfile.TemporaryDirectory() as rooms:
        for trial in TRIALS:
            before = play(trial, trial.before, Path(rooms) / f"{trial.rule}-before")
            after = play(trial, trial.after, Path(rooms) / f"{trial.rule}-after")
            print(row(trial, before, after), flush=True)


if __name__ == "__main__":
    main()
