"""The ``docket`` command: finds a command, loads only that one, and turns errors into messages and exit statuses.

Invariant: ``docket --version`` and ``docket COMMAND --help`` import neither aiohttp nor cryptography.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

import click

from docket import __version__
from docket.cli import exit_codes, output, standard_streams
from docket.errors import DocketError

TASKS: dict[str, dict[str, tuple[str, str]]] = {
    "Run an agent": {
        "init": ("docket.cli.init", "Write a commented docket.toml."),
        "run": ("docket.cli.run", "Supervise an agent: meter, cap and record its model calls."),
        "stop": ("docket.cli.stop", "Ask a run to end, and wait until it has."),
        "prices": ("docket.cli.prices", "Show what models cost, and by which rule."),
    },
    "Read what happens, and what happened": {
        "watch": ("docket.cli.watch", "Watch a run while it goes on."),
        "tail": ("docket.cli.tail", "Print the last events of a run, and those that follow."),
        "ls": ("docket.cli.ls", "List runs."),
        "report": ("docket.cli.report", "Show a receipt."),
        "explain": ("docket.cli.explain", "Say what cost money for little, and what would help."),
        "show": ("docket.cli.show", "Show one event of a run."),
        "diff": ("docket.cli.diff", "Say in what two runs differ."),
        "restore": ("docket.cli.restore", "Show what a run changed in its files, and put it back."),
    },
    "Share a budget among runs": {
        "budget": ("docket.cli.budget", "Say what many runs may spend together, and see who spent it."),
        "store": ("docket.cli.store", "Make the place where such budgets are kept."),
    },
    "Check it, and share it": {
        "verify": ("docket.cli.verify", "Check a run, a receipt or a ledger."),
        "redact": ("docket.cli.redact", "Copy a run with private values withheld."),
        "prove": ("docket.cli.prove", "Write one event with its proof, to hand over by itself."),
        "export": ("docket.cli.export", "State a run in the form that supply-chain tools read, signed by you."),
        "archive": ("docket.cli.archive", "Write one run to one file that verifies as it is."),
        "keygen": ("docket.cli.keygen", "Make an operator key, to sign receipts with."),
    },
    "Look after runs": {
        "doctor": ("docket.cli.doctor", "Say what state runs are in, and repair what can be."),
        "prune": ("docket.cli.prune", "Remove old runs."),
    },
    "Try it": {
        "demo": ("docket.cli.demo", "Watch a looping agent be stopped by its cap, offline."),
        "selftest": ("docket.cli.selftest", "Try on this machine what docket promises, offline, in seconds."),
        "chaos": ("docket.cli.chaos", "Run an agent while provider, disk or clock misbehave by plan: a drill."),
        "game-day": (
            "docket.cli.game_day",
            "Drill this docket on this machine: outages, full disks, killed processes.",
        ),
    },
    "Set up the shell": {
        "completion": ("docket.cli.completion", "Print the completion script of a shell."),
    },
}
"""By what a person wants to do: every command, the module that holds ``command``, and its line in ``docket --help``."""

COMMANDS = {name: row for commands in TASKS.values() for name, row in commands.items()}

COMPLETE = "_DOCKET_COMPLETE"
"""The variable by which a completion script asks for candidates instead of running a command."""

EPILOG = """\b
Start here:
  docket demo                                  a looping agent, stopped by its cap, offline
  docket init                                  write a commented docket.toml
  docket run --max-usd 5 -- python agent.py    supervise an agent
  docket verify .docket/latest                 check what was recorded

Exit status of `run`: the agent's own; 42 stopped by a cap; 125 docket failed; 126, 127 the agent cannot be started;
128+n ended by signal n; 2 wrong call or policy, nothing started.
"""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(COMMANDS[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for task, commands in TASKS.items():
            with formatter.section(task):
                formatter.write_dl([(name.ljust(width), line) for name, (_, line) in commands.items()])


@click.group(cls=LazyGroup, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="docket", message="%(prog)s %(version)s")
def docket() -> None:
    """Supervise an AI agent, meter and cap its model calls, and write a receipt that anyone can verify."""


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line ``args`` (sys.argv by default) and exit with its status."""
    standard_streams.open_missing()
    standard_streams.take_any_text()
    status = status_of(sys.argv[1:] if args is None else args)
    standard_streams.settle()
    sys.exit(status)


def status_of(args: Sequence[str]) -> int:
    """Run the command line ``args`` and return its exit status; a command's result is its status, None meaning 0."""
    try:
        returned = docket.main(list(args), prog_name="docket", standalone_mode=False)
        sys.stdout.flush()
    except DocketError as error:
        output.failure(str(error), error.hint)
        return exit_codes.of_error(error)
    except click.Abort:
        return exit_codes.INTERRUPTED
    except click.ClickException as error:
        error.show(shown := io.StringIO())
        output.remark(shown.getvalue().rstrip("\n"))
        return exit_codes.USAGE
    except (BrokenPipeError, SystemExit) as left:  # click turns EPIPE, and an answer to a shell, into SystemExit
        if isinstance(left, SystemExit) and COMPLETE in os.environ:
            return int(left.code or 0)
        standard_streams.settle()
        return exit_codes.BROKEN_PIPE
    except OSError as error:
        return _unprinted(error) or _nowhere() or _own_fault(error)
    except Exception as error:  # noqa: BLE001 the one place where a fault of docket's own becomes a message
        return _own_fault(error)
    return returned if isinstance(returned, int) else exit_codes.OK


def _unprinted(error: OSError) -> int | None:
    """Return the status where it is the result that could not be printed, else None."""
    frames = (frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__))
    if click.echo.__code__ not in frames:
        try:
            sys.stdout.flush()
            return None
        except OSError:
            pass  # what stdout did not take is still there: it was that
    standard_streams.settle()
    output.failure(f"the result could not be printed: {error.strerror}", "write it to another file or volume")
    return exit_codes.DOCKET_FAILED


def _nowhere() -> int | None:
    """Return the status where the working directory was removed, else None."""
    try:
        os.getcwd()
        return None
    except FileNotFoundError:
        output.failure("the working directory is gone", "change to a directory that is there")
        return exit_codes.USAGE


def _own_fault(error: Exception) -> int:
    """Name the type and the place only: the text of a foreign exception may quote a request or an environment."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else "unknown place"
    output.failure(f"fault of docket itself: {type(error).__name__} at {place}", "please report it with this line")
    return exit_codes.DOCKET_FAILED


if __name__ == "__main__":
    main()
