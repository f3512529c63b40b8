"""``docket run``: flags to a RunRequest. What a run does is the supervisor's."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from docket.cli import options
from docket.errors import UsageError
from docket.process.held import held_back, too_late

if TYPE_CHECKING:
    from docket.policy.model import Policy
    from docket.supervisor.request import RunRequest

POLICY_FILE = Path("docket.toml")
"""Read from the working directory when --policy names no other."""
MAX_SIZE = 2**50
"""A petabyte: beyond any disk that a run has to itself."""
FLAGS: dict[str, str] = {
    "max_usd": "caps.max_usd",
    "max_tokens": "caps.max_tokens",
    "max_calls": "caps.max_model_calls",
    "max_wall_clock": "caps.max_wall_seconds",
    "on_breach": "caps.on_breach",
    "budget_mode": "budget.mode",
    "endure": "endurance.outage_seconds",
    "health_listen": "health.listen",
    "metrics_file": "health.metrics_file",
}
"""Flags that override one key of the policy."""


@click.command("run", context_settings={"allow_interspersed_args": False})
@click.option("--policy", type=click.Path(path_type=Path), help="Policy file; ./docket.toml if there is one.")
@click.option("--max-usd", metavar="USD", help="US dollars that the run may spend.")
@click.option("--max-tokens", metavar="N", help="Tokens of all kinds together.")
@click.option("--max-calls", "--max-model-calls", "max_calls", metavar="N", help="Model calls forwarded to a provider.")
@click.option(
    "--max-wall-clock",
    "--max-wall-seconds",
    "max_wall_clock",
    metavar="TIME",
    help="Seconds, or a time such as 90s, 15m, 2h.",
)
@click.option("--on-breach", metavar="kill|deny", help="At a cap: stop the process tree, or refuse further calls.")
@click.option(
    "--endure", metavar="TIME", help="Ride out outages: try failed calls again for so long, such as 30m or 2h."
)
@click.option("--budget-mode", metavar="usd|quota", help="Price the calls, or only count them.")
@click.option(
    "--upstream",
    "upstreams",
    multiple=True,
    metavar="NAME=URL",
    help="Address of a provider, as its own variable would hold it; NAME:PROTOCOL=URL for a new one. Repeatable.",
)
@click.option("--prices", type=click.Path(path_type=Path), help="Price table to use instead of the built-in one.")
@click.option("--label", metavar="TEXT", help="A name for the run; `docket ls` shows it, a verifier needs not know it.")
@options.docket_dir
@click.option("--cwd", type=click.Path(path_type=Path), default=Path(), help="Working directory of the agent.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port of the boundary; any free one if left out."
)
@click.option(
    "--health-listen", metavar="ADDR:PORT", help="Serve health and metrics, and nothing else, on this address too."
)
@click.option("--metrics-file", metavar="PATH", help="Write the last metrics to this file when the run ends.")
@click.option(
    "--snapshot",
    is_flag=True,
    help="Keep the files of the working directory, so that `docket restore` can undo the run.",
)
@click.option(
    "--snapshot-max-bytes",
    metavar="SIZE",
    default="2GiB",
    show_default=True,
    help="Refuse the run where there is more to keep.",
)
@click.option(
    "--rollback-on-breach", is_flag=True, help="Restore the files when a cap was reached; implies --snapshot."
)
@click.option(
    "--hold-keys",
    is_flag=True,
    help="Keep providers' keys from the agent: it gets the run's token, docket puts the key in (see docs/egress.md).",
)
@click.option(
    "--budget", "budgets", multiple=True, metavar="NAME", help="Share this budget with other runs. Repeatable."
)
@click.option("--store", metavar="URL", envvar="DOCKET_STORE", help="Where shared budgets are (see docs/fleet.md).")
@click.option("--agent", metavar="NAME", help="Adapt COMMAND as this agent, whatever its name (see docs/agents.md).")
@click.option("--no-adapt", is_flag=True, help="Set the base-URL variables and nothing else.")
@click.option("--quiet", is_flag=True, help="Print errors, the run key and the root only.")
@click.option("--summary-file", type=click.Path(path_type=Path), help="Write a summary in Markdown to this file.")
@click.option(
    "--fallback-dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where the receipt goes if the run's own directory cannot be written any more.",
)
@click.option(
    "--sign", "sign", type=click.Path(path_type=Path), help="Operator key of `docket keygen`; signs the receipt."
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Continue this run (directory, docket number or latest) in a further session: what was booked counts.",
)
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND [ARGUMENT]...")
def command(argv: tuple[str, ...], policy: Path | None, upstreams: tuple[str, ...], **options: Any) -> int:
    """Run COMMAND as an agent whose model calls pass through docket.

    The agent's base-URL variables (OPENAI_BASE_URL, ANTHROPIC_BASE_URL, ...) are pointed at docket, which meters,
    caps and records every call, and forwards it unchanged. When the agent and everything it started have ended, a
    receipt is written beside the ledger. docket itself prints to stderr only.

    \b
      docket run --max-usd 5 -- python agent.py
      docket run --max-calls 100 --on-breach deny -- claude -p "fix the tests"
      docket run --resume latest --max-usd 5 -- python agent.py

    Exit status: the agent's own; 42 stopped by a cap; 125 docket failed; 126, 127 COMMAND cannot be started; 128+n
    ended by signal n; 2 wrong call or policy, nothing started.
    """
    with held_back() as mask:
        request = request_of(argv, policy, upstreams, **options)
        from docket.supervisor.run import run_held  # the whole boundary; a wrong flag is answered without it

        status = run_held(request, mask)
        too_late()
        return status


def request_of(argv: tuple[str, ...], policy: Path | None, upstreams: tuple[str, ...], **options: Any) -> RunRequest:
    """The run that the options of ``docket run`` ask for. Raises UsageError, PolicyError."""
    from docket.policy.parse import override
    from docket.storage.paths import find_run
    from docket.supervisor.agent_setup import check_agent
    from docket.supervisor.request import RunRequest

    check_agent(options["agent"])
    policy_file, effective = read_policy(policy)
    overrides = {key: str(options[flag]) for flag, key in FLAGS.items() if options[flag] is not None}
    flags = {key: (f"--{flag.replace('_', '-')}", overrides[key]) for flag, key in FLAGS.items() if key in overrides}
    effective = override(effective, flags, upstreams)
    budgets = tuple(dict.fromkeys((*effective.fleet.budgets, *options["budgets"])))
    effective = replace(effective, fleet=replace(effective.fleet, budgets=budgets))
    if effective.budget.mode == "quota" and options["max_usd"] is not None:
        raise UsageError(
            "--max-usd caps nothing under --budget-mode quota, which prices no call",
            hint="cap it with --max-tokens or --max-calls, or leave quota out",
        )
    cwd: Path = options["cwd"]
    if not cwd.is_dir():
        raise UsageError(f"--cwd: {cwd} is not a directory")
    docket_dir = options["docket_dir"].absolute()
    return RunRequest(
        argv=argv,
        policy=effective,
        docket_dir=docket_dir,
        resume=find_run(docket_dir, options["resume"]) if options["resume"] is not None else None,
        cwd=cwd.absolute(),
        environ=dict(os.environ),
        policy_file=policy_file,
        overrides=overrides | _upstream_overrides(upstreams),
        prices=options["prices"],
        label=options["label"],
        port=options["port"],
        quiet=options["quiet"],
        summary_file=options["summary_file"],
        fallback_dir=options["fallback_dir"].absolute() if options["fallback_dir"] is not None else None,
        agent=options["agent"],
        adapt=not options["no_adapt"],
        hold_keys=options["hold_keys"],
        store=options["store"],
        operator_key=options["sign"],
        snapshot=options["snapshot"] or options["rollback_on_breach"],
        snapshot_max_bytes=_size("--snapshot-max-bytes", options["snapshot_max_bytes"]),
        rollback_on_breach=options["rollback_on_breach"],
    )


def _size(flag: str, text: str) -> int:
    from docket.policy.kinds import Size

    try:
        return Size(1, MAX_SIZE).read_text(int(text) if text.isdecimal() else text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from error


def read_policy(file: Path | None) -> tuple[Path | None, Policy]:
    """The policy of ``file``, of ./docket.toml if that exists, or the default one. Raises UsageError, PolicyError."""
    from docket.policy.model import Policy
    from docket.policy.parse import MAX_POLICY_BYTES, parse
    from docket.storage.regular import read_regular

    chosen = file or POLICY_FILE
    try:
        data = read_regular(chosen, MAX_POLICY_BYTES)
    except FileNotFoundError as error:
        if file is None:
            return None, Policy()
        raise UsageError(f"no policy file {file}", hint="docket init writes one") from error
    except OSError as error:
        raise UsageError(f"cannot read the policy file {chosen}: {error.strerror}") from error
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"the policy file {chosen} is not UTF-8 at byte {error.start}") from error
    return chosen, parse(text, str(chosen))


def _upstream_overrides(upstreams: tuple[str, ...]) -> dict[str, str]:
    from docket.policy.kinds import strip_userinfo

    pairs = (text.partition("=") for text in upstreams)
    return {f"upstreams.{name.partition(':')[0]}.base_url": strip_userinfo(url) for name, _, url in pairs}
