"""What a message of the agent on the WebSocket of the Responses API is: decided before it is passed on.

Invariant: a message counts as a known one only where every reader of JSON sees one object with one ``type``; all else
is unknown, and what is unknown may spend.
"""

from __future__ import annotations

import json
from enum import Enum

import orjson

from docket.primitives.frames import TEXT, Message

CREATE = "response.create"
SPENDLESS = frozenset({"response.cancel", "response.processed"})
"""Messages that ask for no answer: to end one, and to say that one was read."""


class Kind(Enum):
    """What a message of the agent asks for."""

    CREATE = "an answer"
    SPENDLESS = "nothing that is billed"
    UNKNOWN = "what docket cannot tell"


def kind_of(message: Message) -> tuple[Kind, str]:
    """Return what ``message`` asks for; for an unknown one also why it is that, as a phrase for people."""
    if message.opcode != TEXT:
        return Kind.UNKNOWN, "it is a binary message"
    try:
        document = orjson.loads(message.payload)  # refuses a BOM, NaN, lone surrogates and bytes that are no UTF-8
    except orjson.JSONDecodeError:
        return Kind.UNKNOWN, "it is no JSON that every reader takes"
    if not isinstance(document, dict):
        return Kind.UNKNOWN, "it is no JSON object"
    names = list(document) if orjson.dumps(document) == message.payload else _names(message.payload)
    if names is None:
        return Kind.UNKNOWN, "it is nested too deeply, or a number in it is too long"
    if [name for name in names if name.casefold() == "type"] != ["type"]:
        return Kind.UNKNOWN, "it has no type, or more than one"
    kind = document["type"]
    if kind == CREATE:
        if "response" in names:
            return Kind.UNKNOWN, "its members may stand inside another one"
        return Kind.CREATE, ""
    if isinstance(kind, str) and kind in SPENDLESS:
        return Kind.SPENDLESS, ""
    return Kind.UNKNOWN, "its type is not known"


def _names(payload: bytes) -> list[str] | None:
    """The names of the object's members as they stand there, repeated ones too; None where the reader gives up."""
    outermost: list[str] = []

    def pairs(found: list[tuple[str, object]]) -> None:
        outermost[:] = [name for name, _ in found]  # the outermost object is read to its end last

    try:
        json.loads(payload, object_pairs_hook=pairs)
    except (ValueError, RecursionError):
        return None
    return outermost
