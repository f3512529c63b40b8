"""Real agents through docket: ``make test-agents``.

Installs the command-line agents into a directory that is thrown away, drives each against the scripted provider on
loopback for a metered turn, a capped run, a refused call and a temporary refusal, and writes what was seen as a table.
An agent that cannot be installed is a row that says so.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.request import urlopen

ROOT = Path(__file__).parents[1]
TEXT = "hello from the scripted provider"
DEAD_PROXY = "http://127.0.0.1:9"
"""Whatever an agent calls besides its model must fail at once, and nothing leaves this machine."""
LIMIT_SECONDS = 90
INPUT, OUTPUT = 120, 20


@dataclass(frozen=True)
class Trial:
    """One agent: what is installed, how it is started, the key it wants."""

    name: str
    package: str
    installer: str
    """``npm``, or ``pip...``: each of these names a virtual environment of its own."""
    command: tuple[str, ...]
    environment: dict[str, str]
    retries: bool = True
    """Whether it comes back after a temporary refusal at all, by what was measured before."""


TRIALS = (
    Trial(
        "claude-code",
        "@anthropic-ai/claude-code@2.1.197",
        "npm",
        ("claude", "-p", "--model", "claude-sonnet-4-5", "say hi"),
        {"ANTHROPIC_API_KEY": "sk-trial"},
    ),
    Trial(
        "claude-code 2.1.332 in claude-agent-sdk",
        "claude-agent-sdk==0.2.189",
        "pip-claude",
        ("claude", "-p", "--model", "claude-opus-5-5", "say hi"),
        {"ANTHROPIC_API_KEY": "sk-trial"},
    ),
    Trial(
        "codex",
        "@openai/codex@0.171.0",
        "npm",
        ("codex", "exec", "--skip-git-repo-check", "-m", "gpt-5", "say hi"),
        {"OPENAI_API_KEY": "sk-trial"},
    ),
    Trial(
        "gemini-cli",
        "@google/gemini-cli@0.61.0",
        "npm",
        ("gemini", "--skip-trust", "-m", "gemini-2.5-pro", "-p", "say hi"),
        {"GEMINI_API_KEY": "trial"},
    ),
    Trial(
        "opencode",
        "opencode-ai@1.18.33",
        "npm",
        ("opencode", "run", "-m", "anthropic/claude-sonnet-4-5", "say hi"),
        {"ANTHROPIC_API_KEY": "sk-trial"},
    ),
    Trial(
        "aider",
        "aider-chat==0.86.2",
        "pip",
        (
            "aider",
            "--model",
            "openai/gpt-4o",
            "--no-git",
            "--yes-always",
            "--no-check-update",
            "--no-show-release-notes",
            "--analytics-disable",
            "--message",
            "say hi",
        ),
        {"OPENAI_API_KEY": "sk-trial", "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
    ),
)


@dataclass
class Seen:
    """What one run of one agent came to."""

    status: int
    output: str
    receipt: dict[str, Any]
    events: list[dict[str, Any]]
    provider: dict[str, Any]
    seconds: float
    shown_at: float | None = None
    """Wall-clock second at which the refusal's text first stood in the output."""

    @property
    def tokens(self) -> tuple[int, int]:
        """Input and output tokens of the receipt."""
        kinds: dict[str, int] = self.receipt["totals"]["tokens"]
        out = sum(n for kind, n in kinds.items() if kind.startswith(("output", "reasoning")))
        return sum(kinds.values()) - out, out

    def denied(self) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == "model.denied"]


@dataclass
class Verdict:
    """One row of the table."""

    name: str
    version: str = "not installed"
    attached: str = "-"
    equal: str = "-"
    exact: str = "-"
    stopped: str = "-"
    shown: str = "-"
    no_call_after: str = "-"
    recovered: str = "-"
    notes: list[str] = field(default_factory=list)

    def cells(self) -> list[str]:
        return [
            self.name,
            self.version,
            self.attached,
            self.equal,
            self.exact,
            self.stopped,
            self.shown,
            self.no_call_after,
            self.recovered,
            "; ".join(self.notes),
        ]


HEAD = (
    "agent",
    "version",
    "attached",
    "tokens equal",
    "cost exact",
    "stopped by cap (42)",
    "refusal shown",
    "no call after it",
    "recovered",
    "remarks",
)


def install(trial: Trial, home: Path) -> Path | None:
    """Install the agent below ``home``; gives the directory of its command, or None where that fails."""
    place = home / trial.installer
    command = trial.command[0]
    if trial.installer == "npm":
        found = place / "node_modules" / ".bin"
        if not (found / command).exists():
            place.mkdir(parents=True, exist_ok=True)
            _quietly(["npm", "install", "--no-audit", "--no-fund", "--prefix", str(place), trial.package])
    else:
        found = place / "bin"
        if not (found / command).exists():
            _quietly([sys.executable, "-m", "venv", str(place)])
            _quietly([str(found / "pip"), "install", "-q", "--disable-pip-version-check", trial.package])
            for bundled in place.glob(f"lib/python3*/site-packages/*/_bundled/{command}"):
                (found / command).symlink_to(bundled)
    return found if (found / command).exists() else None


def _quietly(argv: list[str]) -> None:
    try:
        subprocess.run(argv, check=False, capture_output=True, timeout=900, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        sys.stderr.write(f"{argv[0]}: {error}\n")


@contextmanager
def provider(*steps: dict[str, Any]) -> Iterator[str]:
    """The scripted provider as a process; its URL."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as script:
        json.dump(list(steps), script)
        script.flush()
        argv = [sys.executable, "-m", "docket.sim.upstream", "--script", script.name]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            found = re.search(r"http://\S+", process.stdout.readline())
            assert found
            try:
                yield found.group()
            finally:
                process.terminate()


def drive(trial: Trial, path: Path, url: str, policy: str, *options: str) -> Seen:
    """One run of the agent under docket, in an empty home and an empty directory."""
    with tempfile.TemporaryDirectory(prefix="docket-trial-") as place:
        home, work = Path(place, "home"), Path(place, "work")
        home.mkdir()
        work.mkdir()
        (work / "docket.toml").write_text(policy)
        upstreams = {"openai": f"{url}/v1", "anthropic": url, "gemini": url}
        argv = [str(ROOT / ".venv/bin/docket"), "run", *options]
        for name, address in upstreams.items():
            argv += ["--upstream", f"{name}={address}"]
        environment = {
            "PATH": f"{path}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(home),
            "TERM": "dumb",
            "HTTPS_PROXY": DEAD_PROXY,
            **trial.environment,
        }
        started = time.monotonic()  # noqa: TID251 - measures a process from outside
        output, status, shown = _watch([*argv, "--", *trial.command], work, environment)
        latest = work / ".docket" / "latest"
        with urlopen(f"{url}/sim/requests") as answer:
            counted = json.load(answer)
        return Seen(
            status=status,
            output=output,
            receipt=json.loads((latest / "receipt.json").read_text()),
            events=[json.loads(line) for line in (latest / "ledger.jsonl").read_text().splitlines()],
            provider=counted,
            seconds=time.monotonic() - started,  # noqa: TID251 - measures a process from outside
            shown_at=shown,
        )


def _watch(argv: list[str], work: Path, environment: dict[str, str]) -> tuple[str, int, float | None]:
    """Run ``argv`` to its end; its output, its status, and when the text of a refusal was first there."""
    shown: float | None = None
    pieces: list[bytes] = []
    with subprocess.Popen(
        argv, cwd=work, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        killer = subprocess.Popen(["sh", "-c", f"sleep {LIMIT_SECONDS}; kill {process.pid}"])
        try:
            while data := os.read(process.stdout.fileno(), 65536):
                pieces.append(data)
                if shown is None and b"is denied by the policy" in b" ".join(b"".join(pieces).split()):
                    shown = datetime.now(UTC).timestamp()  # noqa: TID251 - compared with the record's wall clock
            status = process.wait()
        finally:
            killer.kill()
            killer.wait()
    return b"".join(pieces).decode("utf-8", "replace"), status, shown


def judge(trial: Trial, path: Path | None) -> Verdict:
    """Drive one agent through the four runs."""
    verdict = Verdict(trial.name)
    if path is None:
        verdict.notes.append("could not be installed here")
        return verdict
    verdict.version = trial.package.rpartition("@")[2].rpartition("=")[2]
    usage = "[usage]\nrequest_stream_usage = true\n"
    step = {"text": TEXT, "input_tokens": INPUT, "output_tokens": OUTPUT}
    _metered(trial, path, usage, step, verdict)
    with provider(step) as url:
        seen = drive(trial, path, url, usage, "--max-usd", "0.000001")
        verdict.stopped = _yes(seen.status == 42 and seen.receipt["session"]["outcome"] == "breached")
    _refused(trial, path, step, verdict)
    rest = "[resilience]\nbreaker_threshold = 1\nbreaker_cooldown_seconds = 2\n"
    with provider({"status": 500, "times": 1}, step) as url:
        seen = drive(trial, path, url, usage + rest)
        temporary = [event for event in seen.denied() if event["data"]["code"] == "breaker_open"]
        if not temporary:
            verdict.recovered = "no retry" if TEXT not in seen.output else "yes"
            verdict.notes.append("came back only when the rest was over" if TEXT in seen.output else "gave up at a 500")
        else:
            verdict.recovered = _yes(TEXT in seen.output)
            verdict.notes.append(f"after {sum(e['data']['count'] for e in temporary)} refusals, {seen.seconds:.1f} s")
    return verdict


def _metered(trial: Trial, path: Path, usage: str, step: dict[str, Any], verdict: Verdict) -> None:
    with provider(step) as url:
        seen = drive(trial, path, url, usage, "--max-usd", "5")
    totals = seen.receipt["totals"]
    verdict.attached = _yes(totals["calls"] > 0 and TEXT in seen.output)
    counted = (seen.provider["input_tokens"], seen.provider["output_tokens"])
    verdict.equal = _yes(seen.tokens == counted and totals["calls"] > 0)
    verdict.exact = _yes(totals["cost_is"] == "exact" and totals["calls"] > 0)
    verdict.notes.append(f"{totals['calls']} calls, ${totals.get('cost_usd', '?')}")


def _refused(trial: Trial, path: Path, step: dict[str, Any], verdict: Verdict) -> None:
    with provider(step) as url:
        seen = drive(trial, path, url, '[models]\ndeny = ["*"]\n')
    verdict.shown = _yes(seen.shown_at is not None)
    denied = seen.denied()
    last = max((datetime.fromisoformat(event["ts"]).timestamp() for event in denied), default=0.0)
    quiet = seen.shown_at is not None and seen.status != 143 and seen.provider["count"] == 0
    # A summed denial is written up to a second after the last one it counts.
    verdict.no_call_after = _yes(quiet and last <= (seen.shown_at or 0) + 1.1)
    verdict.notes.append(f"{sum(event['data']['count'] for event in denied)} refused, exit {seen.status}")


def _yes(what: bool) -> str:
    return "yes" if what else "no"


def page(rows: list[Verdict]) -> str:
    """The table as a page of docs/measurements."""
    day = datetime.now(UTC).date().isoformat()  # noqa: TID251 - the date of the measurement
    lines = [
        f"# Real agents through docket, {day}",
        "",
        "`make test-agents`: each agent, unmodified, in an empty home, against the scripted provider on loopback;",
        "`HTTPS_PROXY` at a dead port, so nothing else answers. Linux 6.18, 2 cores, Node 20.20.2.",
        "",
        "Runs: a metered turn (tokens compared with the provider's own count); `--max-usd 0.000001`; every model",
        "denied; and a provider that fails once under `breaker_threshold = 1`, so that the retry meets a temporary",
        "refusal. aider's streams were made to ask for usage (`[usage] request_stream_usage`).",
        "",
        "| " + " | ".join(HEAD) + " |",
        "| " + " | ".join("---" for _ in HEAD) + " |",
        *("| " + " | ".join(row.cells()) + " |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Drive every agent; exit status 1 where one that was installed did not attach, stop or add up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--agents", type=Path, help="where the agents are installed, kept; else a directory thrown away"
    )
    parser.add_argument("--only", help="one agent")
    parser.add_argument("--out", type=Path, help="the page to write; else it is printed")
    options = parser.parse_args()
    home = options.agents or Path(tempfile.mkdtemp(prefix="docket-agents-"))
    try:
        rows = [judge(t, install(t, home)) for t in TRIALS if options.only in (None, t.name)]
    finally:
        if options.agents is None:
            shutil.rmtree(home, ignore_errors=True)
    text = page(rows)
    if options.out:
        options.out.write_text(text)
    sys.stdout.write(text)
    skipped = [row.name for row in rows if row.version == "not installed"]
    sys.stdout.write(f"SKIP {len(skipped)}: {', '.join(skipped) or 'none'}\n")
    judged = [row for row in rows if row.name not in skipped]
    return int(any("no" in (r.attached, r.equal, r.exact, r.stopped, r.shown, r.no_call_after) for r in judged))


if __name__ == "__main__":
    sys.exit(main())
