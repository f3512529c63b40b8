"""Man pages say what the help says, and troff can read them."""

from __future__ import annotations

import shutil
import subprocess

import click
import pytest
from tools.man_pages import pages

from docket.cli.main import COMMANDS, docket


def test_every_command_has_a_page_that_names_every_one_of_its_options() -> None:
    written = pages()
    for name in COMMANDS:
        context = click.Context(docket, info_name="docket")
        command = docket.get_command(context, name)
        assert command is not None
        text = written[f"docket-{name}.1"]
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert option.opts[-1].replace("-", "\\-") in text, f"{name} {option.opts}"


@pytest.mark.skipif(shutil.which("groff") is None, reason="SKIP: no groff here")
def test_troff_finds_nothing_to_warn_of() -> None:
    for name, text in pages().items():
        done = subprocess.run(
            ["groff", "-man", "-ww", "-z", "-K", "utf8"], input=text, capture_output=True, text=True, check=True
        )
        assert done.stderr == "", name
