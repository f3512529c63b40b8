"""Where the store is: what the call says, the environment, the policy, or a file of the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from docket.fleet.database import connect
from docket.fleet.store import Store

VARIABLE = "DOCKET_STORE"


def store_url(given: str | None, environ: Mapping[str, str], policy: str | None = None) -> str:
    """The address of the store."""
    return given or environ.get(VARIABLE) or policy or default_url(environ)


def default_url(environ: Mapping[str, str]) -> str:
    """``fleet.sqlite`` in the user's data directory (XDG Base Directory Specification)."""
    data = environ.get("XDG_DATA_HOME", "")
    base = Path(data) if data.startswith("/") else Path(environ.get("HOME", "/")).absolute() / ".local/share"
    return f"sqlite://{quote(str(base / 'docket/fleet.sqlite'))}"


def open_store(url: str) -> Store:
    """The store at ``url``, of the schema that this docket knows. Raises StoreError, StoreAwayError, UsageError."""
    store = Store(connect(url))
    try:
        store.check()
    except BaseException:
        store.close()
        raise
    return store
