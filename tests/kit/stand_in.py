"""A provider that answers with prepared bodies, in this process: whatever the fixture says, to whoever asks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from threading import Thread
from typing import Any


@dataclass(frozen=True)
class Asked:
    """A request as it came; ``document`` is its JSON body, empty where it has none."""

    method: str
    path: str
    headers: dict[str, str]
    document: dict[str, Any]


@dataclass(frozen=True)
class Given:
    """An answer."""

    body: bytes
    media_type: str = "application/json"
    status: int = 200
    pieces: tuple[int, ...] = ()
    """Offsets at which the body is cut into chunks."""


@dataclass
class StandIn:
    """What was asked, and where it listens."""

    url: str
    seen: list[Asked] = field(default_factory=list)


@contextmanager
def standing_in(answer: Callable[[Asked], Given]) -> Iterator[StandIn]:
    """Serve ``answer`` on loopback until the context ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(self.command, self.path, headers, json.loads(body) if body else {})
            stand_in.seen.append(asked)
            given = answer(asked)
            self.send_response(given.status)
            self.send_header("content-type", given.media_type)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            edges = [0, *given.pieces, len(given.body)]
            for start, end in pairwise(edges):
                if end > start:
                    self.wfile.write(b"%x\r\n%b\r\n" % (end - start, given.body[start:end]))
                    self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")

        do_GET = do_POST = _serve

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        stand_in = StandIn(f"http://127.0.0.1:{server.server_address[1]}")
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield stand_in
        finally:
            server.shutdown()
            thread.join()
