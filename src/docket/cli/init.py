"""``docket init``: write a policy file that teaches every key."""

from __future__ import annotations

from pathlib import Path

import click

from docket.cli import output
from docket.errors import UsageError
from docket.policy.model import Policy
from docket.policy.render import render


@click.command("init")
@click.argument("file", type=click.Path(path_type=Path), default=Path("docket.toml"))
@click.option("--force", is_flag=True, help="Replace a file that exists.")
def command(file: Path, force: bool) -> None:
    """Write a commented policy to FILE (docket.toml by default).

    Every key is there: those commented out show their default. `docket run` reads ./docket.toml by itself.
    """
    try:
        with file.open("w" if force else "x", encoding="utf-8") as stream:
            stream.write(render(Policy()))
    except FileExistsError as error:
        raise UsageError(f"{file} exists already", hint="--force replaces it") from error
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}") from error
    output.remark(f"wrote {file}; edit it, then: docket run -- python agent.py")
