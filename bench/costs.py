"""What docket itself costs: memory over many calls, time to seal a receipt, time to start a command.

Each figure comes from real processes: ``docket run`` over an agent of eight workers and the scripted provider. Writes
a Markdown page and its raw data. Run it with ``python -m bench.costs --out docs/measurements``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORKERS = 8
RUNS = 7
PRICES = {
    "format": "docket-prices/1",
    "source": "bench",
    "version": "1",
    "date": "2026-11-30",
    "models": [
        {
            "provider": "openai",
            "model": "gpt-5",
            "periods": [{"rows": [["standard", "input", "2", 1000000], ["standard", "output", "10", 1000000]]}],
        }
    ],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="directory for the page and its raw data")
    parser.add_argument("--agent", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.agent is not None:
        asyncio.run(agent(arguments.agent))
        return
    figures = {"memory": memory(20_000), "seal": [seal(12_000) for _ in range(3)], "start": start()}
    print(page(figures))
    if arguments.out is not None:
        stem = f"costs-{time.strftime('%Y-%m-%d')}"
        (arguments.out / f"{stem}.json").write_text(json.dumps(figures, indent=1) + "\n")
        (arguments.out / f"{stem}.md").write_text(page(figures))


async def agent(calls: int) -> None:
    """Make ``calls`` calls and say docket's resident memory (KiB) after 200, at the end, and when that was."""
    import aiohttp

    docket = _parent(os.getppid())  # the agent's parent is the guardian
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    body = {"model": "gpt-5", "max_completion_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}
    done, after_200 = 0, 0

    async def work(session: aiohttp.ClientSession) -> None:
        nonlocal done, after_200
        while done < calls:
            done += 1
            if done == 200:
                after_200 = _resident(docket)
            async with session.post(url, json=body) as answer:
                await answer.read()
                assert answer.status == 200, answer.status

    async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as tasks:
        for _ in range(WORKERS):
            tasks.create_task(work(session))
    said = {"after_200_kib": after_200, "at_end_kib": _resident(docket), "ended": time.monotonic()}
    print(json.dumps(said))


def supervised(calls: int) -> dict[str, float]:
    """One run of ``calls`` calls: what the agent said, and when docket ended after it."""
    with tempfile.TemporaryDirectory() as directory:
        prices = Path(directory, "prices.json")
        prices.write_text(json.dumps(PRICES))
        provider = subprocess.Popen(
            [sys.executable, "-m", "docket.sim.upstream", "--model", "gpt-5"], stdout=subprocess.PIPE, text=True
        )
        try:
            assert provider.stdout is not None
            url = provider.stdout.readline().strip()
            command = [sys.executable, "-m", "docket", "run", "--quiet", "--prices", str(prices)]
            command += ["--docket-dir", directory, "--upstream", f"openai={url}/v1", "--"]
            command += [sys.executable, "-m", "bench.costs", "--agent", str(calls)]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
            ended = time.monotonic()
        finally:
            provider.terminate()
            provider.wait()
        said: dict[str, float] = json.loads(done.stdout)
        return said | {"docket_ended_after_s": round(ended - said["ended"], 3)}


def memory(calls: int) -> dict[str, float]:
    said = supervised(calls)
    return {"calls": calls, **said, "growth_kib": said["at_end_kib"] - said["after_200_kib"]}


def seal(calls: int) -> dict[str, float]:
    """Seconds from the agent's last word to docket's end: its exit, the reap, the receipt and docket's own exit."""
    return {"calls": calls, "seconds": supervised(calls)["docket_ended_after_s"]}


def start() -> dict[str, dict[str, float]]:
    """Median seconds of commands that must start at once, beside a bare interpreter, in turn."""
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "docket --version": [sys.executable, "-m", "docket", "--version"],
        "docket verify --help": [sys.executable, "-m", "docket", "verify", "--help"],
    }
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(RUNS):
        for name, command in commands.items():
            before = time.monotonic()
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
            taken[name].append(time.monotonic() - before)
    return {
        name: {"median_s": round(statistics.median(seconds), 3), "max_s": round(max(seconds), 3)}
        for name, seconds in taken.items()
    }


def page(figures: dict) -> str:
    held, sealed = figures["memory"], statistics.median(run["seconds"] for run in figures["seal"])
    bare = figures["start"]["python -c pass"]["median_s"]
    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.release()}, CPython {platform.python_version()}"
    rows = "\n".join(
        f"| `{name}` | {row['median_s']:.3f} | {row['median_s'] - bare:+.3f} |"
        for name, row in figures["start"].items()
    )
    return f"""# What docket itself costs ({time.strftime("%Y-%m-%d")})

Command: `python -m bench.costs --out docs/measurements`. Machine: {machine}. Raw data beside this page, under the same
name. The agent has {WORKERS} workers; every event is synced.

| figure | measured |
| --- | --- |
| resident memory of docket after 200 calls | {held["after_200_kib"]:,.0f} KiB |
| after {held["calls"]:,} calls | {held["at_end_kib"]:,.0f} KiB ({held["growth_kib"]:+,.0f} KiB) |
| from the agent's last word to docket's end, {figures["seal"][0]["calls"]:,} calls, median of 3 | {sealed:.3f} s |

The last figure holds the agent's own exit, the reap, comparing the whole ledger with what was written, the receipt,
and docket's exit. Starting a command, median of {RUNS} in turn:

| command | seconds | beyond a bare interpreter |
| --- | --- | --- |
{rows}

Not shown: a slow disk (see the boundary's bench), other machines.
"""


def _parent(pid: int) -> int:
    return int(_status(pid)["PPid"])


def _resident(pid: int) -> int:
    return int(_status(pid)["VmRSS"].split()[0])


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


if __name__ == "__main__":
    main()
