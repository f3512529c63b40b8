"""Real clients through an outage of their provider: who finishes, who gives up, after how many attempts.

The provider refuses connections for 20 s from the client's first attempt; docket runs under its default policy, and
once under a short cooldown. Called by ``make test-agents``; writes a table.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from docket.chaos.lab import Lab
from docket.primitives.canonical import JsonObject
from tools.agent_trials import DEAD_PROXY, TEXT, TRIALS, install

OUTAGE_SECONDS = 20.0
LIMIT_SECONDS = 240
DEFAULT = ""
SHORT = "[resilience]\nbreaker_cooldown_seconds = 5\n"
SDK = (
    "import sys; from openai import OpenAI\n"
    "client = OpenAI(**({'max_retries': int(sys.argv[1])} if len(sys.argv) > 1 else {}))\n"
    "print(client.chat.completions.create(model='gpt-4o-mini', messages=[{'role': 'user', 'content': 'hi'}])"
    ".choices[0].message.content)"
)


@dataclass(frozen=True)
class Client:
    """Something that calls a model once."""

    name: str
    argv: tuple[str, ...]
    environment: dict[str, str]
    setting: str


@dataclass(frozen=True)
class Row:
    """How one client went through."""

    name: str
    policy: str
    finished: bool
    forwarded: int
    refused: int
    seconds: float
    status: int
    setting: str

    def cells(self) -> list[str]:
        ended = "finished" if self.finished else "gave up"
        return [self.name, self.policy, ended, str(self.forwarded + self.refused), str(self.forwarded),
                str(self.refused), f"{self.seconds:.0f}", str(self.status), self.setting]  # fmt: skip


HEAD = ("client", "policy", "ended", "attempts", "forwarded", "refused", "seconds", "exit", "setting that helps")
SETTINGS = {
    "claude-code": "`CLAUDE_CODE_MAX_RETRIES` (10 by default)",
    "codex": "`request_max_retries` and `stream_max_retries` of its provider (4 and 5 by default)",
}


def clients(home: Path) -> list[Client]:
    """The openai SDK as it comes and as the docs advise; Claude Code and Codex where they can be installed."""
    python = sys.executable
    found = [
        Client("openai SDK", (python, "-c", SDK), {"OPENAI_API_KEY": "sk-trial"}, "`max_retries=10`"),
        Client("openai SDK, max_retries=10", (python, "-c", SDK, "10"), {"OPENAI_API_KEY": "sk-trial"}, "as it is"),
    ]
    for trial in TRIALS:
        if trial.name in SETTINGS and (path := install(trial, home)) is not None:
            environment = {"PATH": f"{path}:/usr/local/bin:/usr/bin:/bin", "HTTPS_PROXY": DEAD_PROXY}
            found.append(Client(trial.name, trial.command, environment | trial.environment, SETTINGS[trial.name]))
    return found


def through(lab: Lab, client: Client, name: str, policy: str) -> Row:
    """One client through one outage."""
    step: JsonObject = {"text": TEXT, "times": 0}
    provider = lab.provider(step)
    provider.kill()
    home, work = lab.room("home"), lab.room("work")
    runs = lab.room("runs")
    (work / "docket.toml").write_text(policy)
    argv = [sys.executable, "-m", "docket", "run", "--docket-dir", str(runs)]
    argv += ["--upstream", f"openai={provider.url}/v1", "--upstream", f"anthropic={provider.url}"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "TERM": "dumb"} | client.environment
    back = threading.Timer(OUTAGE_SECONDS, provider.start)
    back.start()
    started = datetime.now(UTC)  # noqa: TID251 - measures a process from outside
    try:
        done = subprocess.run(
            [*argv, "--", *client.argv], cwd=work, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=LIMIT_SECONDS, check=False,
        )  # fmt: skip
        output, status = done.stdout + done.stderr, done.returncode
    except subprocess.TimeoutExpired as late:
        output, status = str(late.stdout), 124
    took = (datetime.now(UTC) - started).total_seconds()  # noqa: TID251 - measures a process from outside
    back.cancel()
    back.join()
    (ledger,) = runs.glob("runs/*/ledger.jsonl")
    events = [json.loads(line) for line in ledger.read_text().splitlines()]
    forwarded = sum(event["type"] == "model.request" for event in events)
    refused = sum(event["data"]["count"] for event in events if event["type"] == "model.denied")
    return Row(client.name, name, TEXT in output, forwarded, refused, took, status, client.setting)


def page(rows: list[Row]) -> str:
    """The table as a page of docs/measurements."""
    day = datetime.now(UTC).date().isoformat()  # noqa: TID251 - the date of the measurement
    lines = [
        f"# Real clients through an outage of {OUTAGE_SECONDS:.0f} s, {day}",
        "",
        "`python -m tools.outage_trials`: the provider refuses connections for so long from the start of the run.",
        "Linux 6.18, 2 cores. *default* is docket's default policy (the breaker opens after 5 failures, for 30 s);",
        "*short* is `breaker_cooldown_seconds = 5`. Attempts are model calls that reached docket.",
        "",
        "| " + " | ".join(HEAD) + " |",
        "| " + " | ".join("---" for _ in HEAD) + " |",
        *("| " + " | ".join(row.cells()) + " |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Put every client through; exit status 1 where the client that is set as advised gave up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=Path, help="where the agents are installed, kept; else thrown away")
    parser.add_argument("--out", type=Path, help="the page to write; else it is printed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="docket-outage-") as place, Lab(Path(place) / "lab") as lab:
        every = clients(options.agents or Path(place) / "agents")
        rows = [through(lab, client, name, policy) for client in every
                for name, policy in (("default", DEFAULT), ("short", SHORT))]  # fmt: skip
    text = page(rows)
    if options.out:
        options.out.write_text(text)
    sys.stdout.write(text)
    return int(not all(row.finished for row in rows if row.name.endswith("max_retries=10")))


if __name__ == "__main__":
    sys.exit(main())
