"""Options that several commands share, each declared once."""

from __future__ import annotations

from pathlib import Path

import click

docket_dir = click.option(
    "--docket-dir",
    type=click.Path(path_type=Path),
    default=Path(".docket"),
    envvar="DOCKET_DIR",
    show_default=True,
    show_envvar=True,
    help="Where runs are recorded.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="One JSON document, for scripts.")
new_file = click.option("--out", type=click.Path(path_type=Path), help="Write to this new file instead of stdout.")
