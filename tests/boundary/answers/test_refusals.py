"""What every refusal looks like in every protocol: status, headers, and where a program finds the reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from docket.boundary.answers.refusals import Answer, refusal, upstream_failure
from docket.control.decision import Refused
from docket.providers.endpoints import FAMILIES

DOCKET = "DKT-20261130-0123456789"
FINAL = (
    "max_usd",
    "max_tokens",
    "max_model_calls",
    "model_denied",
    "unpriced",
    "unmetered_endpoint",
    "unknown_endpoint",
    "ambiguous_request",
    "unreadable_request",
    "evidence",
    "run_ended",
)
TEMPORARY = ("max_calls_per_second", "max_calls_per_minute", "breaker_open", "max_usd")


def read(answer: Answer) -> tuple[dict[str, Any], dict[str, str]]:
    return json.loads(answer.body), {name.decode().lower(): value.decode() for name, value in answer.headers}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("code", FINAL)
def test_a_final_refusal(family: str, code: str) -> None:
    answer = refusal(Refused(code=code, message="why", limit="5", observed="5.01"), family, DOCKET)
    body, headers = read(answer)
    assert (answer.status, headers["x-should-retry"], headers["content-type"]) == (400, "false", "application/json")
    assert "retry-after" not in headers
    error = body["error"]
    assert error["docket"] == {
        "type": "docket_policy_denied",
        "code": code,
        "docket": DOCKET,
        "limit": "5",
        "observed": "5.01",
    }
    assert "why" in error["message"]
    assert DOCKET in error["message"], "some agents show nothing but the message"


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("code", TEMPORARY)
def test_a_temporary_refusal(family: str, code: str) -> None:
    answer = refusal(Refused(code=code, message="why", retry_after=7), family, DOCKET)
    body, headers = read(answer)
    assert (answer.status, headers["retry-after"]) == (429, "7")
    assert "x-should-retry" not in headers
    assert body["error"]["docket"]["code"] == code
    assert body["error"]["docket"]["retry_after"] == 7


def test_each_protocol_has_its_own_shape() -> None:
    refused = Refused(code="max_usd", message="why")
    bodies = {family: read(refusal(refused, family, DOCKET))[0] for family in FAMILIES}
    assert bodies["anthropic"]["type"] == "error"
    assert bodies["anthropic"]["error"]["type"] == "docket_policy_denied"
    assert (bodies["openai"]["error"]["type"], bodies["openai"]["error"]["code"]) == ("docket_policy_denied", "max_usd")
    assert (bodies["gemini"]["error"]["status"], bodies["gemini"]["error"]["code"]) == ("INVALID_ARGUMENT", 400)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("status", "reason"), [(502, "connect"), (504, "timeout")])
def test_an_upstream_that_does_not_answer(family: str, status: int, reason: str) -> None:
    answer = upstream_failure(status, reason, "cannot connect", family, DOCKET)
    body, _ = read(answer)
    assert answer.status == status
    assert body["error"]["docket"]["code"] == reason
    assert body["error"]["docket"]["type"] != "docket_policy_denied"
