"""The findings of a receipt are those of `docket explain`, over every session of the run."""

from __future__ import annotations

import json
from collections.abc import Callable

from kit.installed import Installed, Provider

CALL = (
    'curl -s -o /dev/null -H \'content-type: application/json\' -d \'{"model":"gpt-4o","messages":[]}\' '
    "$OPENAI_BASE_URL/chat/completions; "
)


def test_a_loop_over_two_sessions_is_one_finding_of_the_receipt_and_of_explain(
    installed: Installed, provider: Callable[..., Provider]
) -> None:
    upstream = provider("--input-tokens", "1000", "--output-tokens", "100")
    done = installed.run("run", *upstream.flags, "--", "sh", "-c", CALL * 4)
    assert done.status == 0, done.err
    assert installed.receipt()["findings"] == []
    done = installed.run("run", "--resume", "latest", *upstream.flags, "--", "sh", "-c", CALL * 3)
    assert done.status == 0, done.err
    (finding,) = installed.receipt()["findings"]
    assert (finding["rule"], finding["count"], finding["impact"]) == (
        "runaway-loop",
        6,
        {"is": "exact", "usd": "0.021"},
    )
    requests = [event["seq"] for event in installed.events("model.request")]
    assert finding["seqs"] == requests[1:]
    told = json.loads(installed.run("explain", "--json", "latest").out)
    assert told[0]["findings"] == [finding]
    assert installed.verdict()["verdict"] in ("verified", "incomplete")
    assert [check for check in installed.verdict()["checks"] if check["status"] == "fail"] == []
