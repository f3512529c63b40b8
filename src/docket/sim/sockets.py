"""The scripted provider's WebSocket: Responses events, one a message (the transport that Codex tries first)."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Callable, Mapping

import orjson

from docket.errors import FormatError
from docket.primitives.frames import CLOSE, PING, PONG, TEXT, MessageReader, encode_message
from docket.sim.answers import Spoken

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""What a server mixes into the client's key to prove that it understood (RFC 6455 section 1.3)."""
MAX_MESSAGE = 64 * 1024 * 1024


def accept(headers: Mapping[str, str]) -> bytes | None:
    """The head that accepts an upgrade to a WebSocket, or None for any other request."""
    key = headers.get("sec-websocket-key")
    if headers.get("upgrade", "").lower() != "websocket" or key is None:
        return None
    proof = base64.b64encode(hashlib.sha1(key.encode() + GUID, usedforsecurity=False).digest())
    fields = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + proof
    return b"HTTP/1.1 101 Switching Protocols\r\n" + fields + b"\r\n\r\n"


async def converse(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Callable[[bytes], Spoken]
) -> None:
    """Answer each message by the events of ``answer`` to it, until the client closes."""
    messages = MessageReader(MAX_MESSAGE)
    while data := await reader.read(65536):
        try:
            for message in messages.feed(data):
                if message.opcode == CLOSE:
                    writer.write(encode_message(CLOSE, message.payload))
                    return
                if message.opcode == PING:
                    writer.write(encode_message(PONG, message.payload))
                elif message.opcode == TEXT:
                    for event in answer(message.payload).events:
                        writer.write(encode_message(TEXT, _data(event)))
                    await writer.drain()
        except FormatError:
            return


def _data(event: bytes) -> bytes:
    """The data of a server-sent event."""
    _, _, data = event.partition(b"data: ")
    return orjson.dumps(orjson.loads(data))
