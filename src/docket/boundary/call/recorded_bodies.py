"""Copies of bodies beside the ledger, where the policy asks for them.

Invariant: copying never fails a call; a copy that could not be stored, or is not whole, is said so in its place.
"""

from __future__ import annotations

import asyncio

from docket.errors import LedgerError
from docket.primitives.canonical import Json
from docket.storage.blobs import Blobs


async def record_body(blobs: Blobs, data: bytes, size: int) -> Json:
    """Copy ``data``, the first bytes of a body of ``size`` bytes. Return what stands for it in the private ``body``:

    ``{"sha256", "bytes"}`` of the copy, ``cut: true`` where it is not the whole body; or ``{"unkept": reason}``.
    """
    try:
        blob = await asyncio.to_thread(blobs.put, data)
    except LedgerError as error:
        return {"unkept": str(error)}
    return blob.to_json() | ({"cut": True} if len(data) < size else {})
