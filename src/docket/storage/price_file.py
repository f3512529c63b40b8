"""Reads price tables: the one that is shipped, or a file of the operator's."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from docket.errors import FormatError, UsageError
from docket.pricing.table import MAX_TABLE_BYTES, PriceTable
from docket.storage.regular import read_regular

SHIPPED = "prices.json"


def read_prices(path: Path | None, at: str) -> PriceTable:
    """The table of the file ``path``, or the shipped one, as in force on the day ``at`` (UTC, ISO 8601).

    Raises UsageError for a file that cannot be read or is no price table.
    """
    if path is None:
        document = resources.files("docket.pricing").joinpath(SHIPPED).read_bytes()
        return PriceTable.parse(document, at=at, trusted=True)
    try:
        return PriceTable.parse(read_regular(path, MAX_TABLE_BYTES), at=at)
    except OSError as error:
        raise UsageError(f"cannot read the price table {path}: {error.strerror}") from error
    except FormatError as error:
        raise UsageError(f"{path}: {error}", hint="docs/prices.md describes the format") from error
