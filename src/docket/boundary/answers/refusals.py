"""The one table of refusals: what docket answers in place of an upstream, in the error shape of the family called.

Every answer carries ``error.docket`` for programs and says the rule and the docket number in ``message``, since some
agents show nothing else. Final refusals are 400 with ``x-should-retry: false``, temporary ones 429 with the real
``retry-after``: measured on real agents, these are the answers on which they stop and on which they come back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from docket.boundary.http1.wire import Header
from docket.control.decision import Refused
from docket.families import BY_NAME, FAMILIES, ErrorShape
from docket.ledger.events import EndReason
from docket.primitives.canonical import Json, JsonObject, encode

DENIED = "docket_policy_denied"
UPSTREAM_FAILED = "docket_upstream_failed"
BAD_REQUEST = "docket_bad_request"
GOOGLE_STATUS = {400: "INVALID_ARGUMENT", 429: "RESOURCE_EXHAUSTED", 502: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED"}
"""Canonical status names of Google's error model for the statuses used here (google.rpc.Code)."""


RUN_ENDED = Refused(code="run_ended", message="docket: the run has ended")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A whole answer of docket's own; ``close`` ends the connection after it."""

    status: int
    headers: tuple[Header, ...]
    body: bytes
    close: bool = False

    @property
    def reason(self) -> bytes:
        return HTTPStatus(self.status).phrase.encode()


def refusal(refused: Refused, family: str, number: str) -> Answer:
    """The answer to a call that is not forwarded."""
    detail: JsonObject = {"type": DENIED, "code": refused.code, "docket": number}
    detail |= {name: value for name, value in (("limit", refused.limit), ("observed", refused.observed)) if value}
    status = 400 if refused.final else 429
    headers: tuple[Header, ...] = ((b"x-should-retry", b"false"),)
    if refused.retry_after is not None:
        headers = ((b"retry-after", b"%d" % refused.retry_after),)
        detail["retry_after"] = refused.retry_after
    message = f"docket: {refused.message.removeprefix('docket: ')} (run {number})"
    return _answer(status, family, DENIED, refused.code, message, detail, headers)


def upstream_failure(status: int, reason: EndReason, message: str, family: str, number: str) -> Answer:
    """The answer where no head came from the upstream: 502 or 504, ``reason`` that of the ``model.error`` event."""
    detail: JsonObject = {"type": UPSTREAM_FAILED, "code": reason, "docket": number}
    return _answer(status, family, UPSTREAM_FAILED, reason, message, detail, ())


def bad_request(status: int, code: str, message: str, family: str, number: str, *, close: bool = False) -> Answer:
    """The answer to a request that cannot be carried: too long, too large, malformed, an upgrade."""
    detail: JsonObject = {"type": BAD_REQUEST, "code": code, "docket": number}
    headers: tuple[Header, ...] = ((b"retry-after", b"1"),) if status == 429 else ((b"x-should-retry", b"false"),)
    return _answer(status, family, BAD_REQUEST, code, message, detail, headers, close=close)


def forbidden() -> Answer:
    """The answer to a request without the run's token: it says nothing about the run."""
    return Answer(status=403, headers=((b"Content-Type", b"text/plain"),), body=b"Forbidden\n")


def _answer(
    status: int,
    family: str,
    kind: str,
    code: str,
    message: str,
    detail: JsonObject,
    headers: tuple[Header, ...],
    *,
    close: bool = False,
) -> Answer:
    body = encode(error_body(family, status, kind, code, message, detail))
    return Answer(status=status, headers=((b"Content-Type", b"application/json"), *headers), body=body, close=close)


def error_body(family: str, status: int, kind: str, code: str, message: str, detail: Json) -> JsonObject:
    """The error document of a family, with docket's own member in it."""
    shape = SHAPES[(BY_NAME.get(family) or FAMILIES[0]).errors]
    return shape(status, kind, code, message, detail)


def _openai(status: int, kind: str, code: str, message: str, detail: Json) -> JsonObject:
    return {"error": {"message": message, "type": kind, "param": None, "code": code, "docket": detail}}


def _anthropic(status: int, kind: str, code: str, message: str, detail: Json) -> JsonObject:
    return {"type": "error", "error": {"type": kind, "message": message, "docket": detail}}


def _google(status: int, kind: str, code: str, message: str, detail: Json) -> JsonObject:
    status_name = GOOGLE_STATUS.get(status, "UNKNOWN")
    return {"error": {"code": status, "message": message, "status": status_name, "docket": detail}}


SHAPES: dict[ErrorShape, Callable[[int, str, str, str, Json], JsonObject]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "google": _google,
}
"""The error documents, by shape."""
