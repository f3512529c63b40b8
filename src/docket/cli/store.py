"""``docket store``: the place where shared budgets are kept."""

from __future__ import annotations

import os

import click

from docket.cli import output
from docket.cli.budget import store


@click.group("store")
def command() -> None:
    """The store of shared budgets: one SQLite file, or one PostgreSQL database for many machines."""


@command.command("init")
@store
def init(url: str | None) -> None:
    """Make the tables of an empty store."""
    from docket.fleet.database import connect
    from docket.fleet.places import store_url
    from docket.fleet.statements import VERSION
    from docket.fleet.store import Store

    found = Store(connect(store_url(url, os.environ), create=True))
    try:
        found.init()
    finally:
        found.close()
    output.result(f"the {found.kind} store is ready (schema {VERSION}); next: docket budget create")


@command.command("upgrade")
@store
def upgrade(url: str | None) -> None:
    """Bring the tables to the schema of this docket; it says so where they are."""
    from docket.fleet.places import open_store, store_url

    found = open_store(store_url(url, os.environ))  # raises where the schema is another: there is only one so far
    version = found.version()
    found.close()
    output.result(f"the store has schema {version}, which this docket knows: nothing to do")
