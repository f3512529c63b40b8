"""Health and metrics, answered without a token: the five routes of the boundary's listener and of the second one.

A probe calls no upstream and writes no event.
"""

from __future__ import annotations

from collections.abc import Callable

from docket.boundary.answers.refusals import Answer
from docket.control.readiness import Status, readiness, summary
from docket.primitives.canonical import JsonObject, encode

PREFIX = "/docket/"
JSON = "application/json"


class Health:
    """The five routes: ``livez``, ``startupz``, ``readyz``, ``healthz``, ``metrics``."""

    def __init__(self, status: Callable[[], Status], render: Callable[[str | None], tuple[str, bytes]]) -> None:
        """``render`` gives content type and exposition for an ``Accept`` header."""
        self._status = status
        self._render = render

    def answer(self, path: str, accept: str | None = None) -> Answer | None:
        """The answer to GET ``path`` (without query), or None if it is none of the five."""
        match path.removeprefix(PREFIX) if path.startswith(PREFIX) else "":
            case "livez":
                return _json(200, {"alive": True})
            case "startupz":
                started = self._status().listening
                return _json(200 if started else 503, {"started": started})
            case "readyz":
                answer = readiness(self._status())
                return _json(200 if answer["ready"] else 503, answer)
            case "healthz":
                return _json(200, summary(self._status()))
            case "metrics":
                content_type, body = self._render(accept)
                return _answer(200, content_type, body)
            case _:
                return None


def _json(status: int, document: JsonObject) -> Answer:
    return _answer(status, JSON, encode(document) + b"\n")


def _answer(status: int, content_type: str, body: bytes) -> Answer:
    return Answer(status=status, headers=((b"Content-Type", content_type.encode()),), body=body)
