"""``docket demo``: a looping agent, stopped by its cap, offline. Every step is a real command, shown before it runs."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from docket.cli import exit_codes, options, output
from docket.errors import DocketError

CAP_USD = "0.05"
MODEL = "gpt-4o"
PROVIDER = ("--input-tokens", "2000", "--output-tokens", "500", "--latency-ms", "20")
"""Answers of the embedded provider: each call costs about one cent at the list price of MODEL."""


@click.command("demo")
@options.docket_dir
@click.option("--tamper", is_flag=True, help="Then change one byte of a copy of the ledger, and verify that.")
def command(docket_dir: Path, tamper: bool) -> int:
    """Watch docket stop a looping agent at its cap, without network and without a key.

    A scripted provider on loopback plays OpenAI; the agent calls it for ever. Exit status 0 when the run was stopped by
    its cap (42), its receipt verified and, with --tamper, the changed copy did not.
    """
    environment = os.environ | {"DOCKET_AGENT_MODE": "runaway", "DOCKET_AGENT_MODEL": MODEL}
    with _provider() as url:
        run = ["run", "--docket-dir", str(docket_dir), "--max-usd", CAP_USD, "--upstream", f"openai={url}/v1"]
        agent = ["--", sys.executable, "-m", "docket.sim.agent"]
        _say("An agent that never stops calling its model, under a cap of 5 cents:")
        stopped = _docket([*run, *agent], environment)
    _expect(stopped == exit_codes.BREACHED, f"the run ended with {stopped} instead of {exit_codes.BREACHED}")
    latest = (docket_dir / "latest").resolve()
    _say("Its receipt, for people:")
    _expect(_docket(["report", str(latest)]) == exit_codes.OK, "the receipt could not be shown")
    _say("Its receipt, checked from ledger, checkpoints and signatures:")
    _expect(_docket(["verify", str(latest)]) == exit_codes.OK, "the run did not verify")
    if tamper:
        _tampered(latest)
    _say(f"Yours to look at: {latest}")
    return exit_codes.OK


@contextmanager
def _provider() -> Iterator[str]:
    """The scripted provider as a process of its own; gives its URL."""
    argv = [sys.executable, "-m", "docket.sim.upstream", *PROVIDER]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL) as process:
        try:
            url = process.stdout.readline().strip() if process.stdout else ""
            _expect(url.startswith("http://"), "the embedded provider did not start")
            yield url
        finally:
            process.terminate()


def _tampered(run: Path) -> None:
    """Change one byte in the middle of a copy of the ledger, and show what the verifier says."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / run.name
        shutil.copytree(run, copy)
        ledger = copy / "ledger.jsonl"
        data = bytearray(ledger.read_bytes())
        place = data.index(b'"type":"model.response"', len(data) // 2) + len(b'"type":"')
        data[place] ^= 0x01
        ledger.chmod(0o600)
        ledger.write_bytes(data)
        _say(f"A copy of its ledger with one byte changed (line {data[:place].count(10) + 1}):")
        _expect(_docket(["verify", str(copy)]) == exit_codes.FAILED, "the changed copy was not refused")


def _docket(arguments: list[str], environment: dict[str, str] | None = None) -> int:
    """Show and run a docket command as a process of its own; gives its exit status."""
    output.result(f"$ docket {shlex.join(arguments)}")
    sys.stdout.flush()
    status = subprocess.run([sys.executable, "-m", "docket", *arguments], env=environment, check=False).returncode
    output.result(f"(exit status {status})")
    return status


def _say(text: str) -> None:
    output.result(f"\n# {text}")


def _expect(held: bool, otherwise: str) -> None:
    if not held:
        raise DocketError(f"demo: {otherwise}", hint="please report it with the output above")
