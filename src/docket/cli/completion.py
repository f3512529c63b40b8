"""``docket completion``: the script with which a shell completes docket's commands, flags and arguments."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from docket.cli import output


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of SHELL. Load it where the shell starts.

    \b
    bash   eval "$(docket completion bash)"                                   in ~/.bashrc
    zsh    eval "$(docket completion zsh)"                                    in ~/.zshrc, after compinit
    fish   docket completion fish > ~/.config/fish/completions/docket.fish    once
    """
    from docket.cli.main import COMPLETE, docket

    kind = get_completion_class(shell)
    assert kind is not None, "click knows the three shells"
    output.result(kind(docket, {}, "docket", COMPLETE).source().rstrip("\n"))
