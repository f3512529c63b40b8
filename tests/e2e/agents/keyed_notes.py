"""An agent that writes notes with ``docket.Session``, and one with a key of its own: its answers go to stdout."""

from __future__ import annotations

import http.client
import os
from urllib.parse import urlsplit

import docket


def post(body: bytes, key: str) -> str:
    """One event under ``key``: status and answer."""
    parts = urlsplit(os.environ["DOCKET_EVENTS_URL"])
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    connection.request("POST", parts.path, body, {"Idempotency-Key": key})
    answer = connection.getresponse()
    said = f"{answer.status} {answer.read().decode().strip()}"
    connection.close()
    return said


with docket.Session() as session:
    for number in range(3):
        session.note(f"step {number}")
print(post(b'{"type": "note", "text": "deployed"}', "deploy-1"))
print(post(b'{"type": "note", "text": "deployed twice"}', "deploy-1"))
