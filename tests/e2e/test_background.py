"""An answer that still runs when the run ends, and is read by a resumed session: one call, counted once."""

from __future__ import annotations

import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from kit.installed import Installed, Provider

AGENT = """
import json, os, sys, urllib.request
base, method, status, times = os.environ["OPENAI_BASE_URL"], sys.argv[1], sys.argv[2], int(sys.argv[3])
usage = {"input_tokens": 1000, "output_tokens": 200, "total_tokens": 1200} if status == "completed" else None
answer = {"id": "resp_1", "object": "response", "background": True, "model": "gpt-4o", "output": [],
          "usage": usage, "status": status}
asked = {"model": "gpt-4o", "input": "hi", "background": True, "max_output_tokens": 400}
body = json.dumps(asked).encode() if method == "POST" else None
headers = {"Content-Type": "application/json", "Authorization": "Bearer k",
           "X-Sim-Step": json.dumps({"body": json.dumps(answer)})}
url = base + "/responses" + ("" if method == "POST" else "/resp_1")
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
for _ in range(times):
    print(opener.open(urllib.request.Request(url, body, headers, method=method)).status)
"""


def test_an_answer_that_a_resumed_session_reads_is_counted_once_and_never_as_exact(
    installed: Installed, provider: Callable[..., Provider]
) -> None:
    """Its hold stands for it from the first session on: the second neither bills it again nor takes it for free."""
    (installed.directory / "agent.py").write_text(AGENT)
    capped = ["--max-usd", "1", *provider().flags]

    def session(*words: str, more: tuple[str, ...] = ()) -> dict[str, Any]:
        done = installed.run("run", *more, *capped, "--", sys.executable, "agent.py", *words)
        assert done.status == 0, done.err
        assert set(done.out.split()) == {"200"}
        receipt = installed.receipt()
        totals, booked = receipt["totals"], receipt["caps"]["usd"]["booked"]
        return {"calls": totals["calls"], "booked": Decimal(booked), "is": totals["cost_is"]}

    first = session("POST", "queued", "1")
    assert first["booked"] > 0
    assert (first["calls"], first["is"]) == (1, "none")
    assert session("GET", "completed", "3", more=("--resume", "latest")) == first
    (end,) = installed.events("model.response")
    assert (end["data"]["reason"], end["data"]["usage"]["source"]) == ("background", "none")
    assert len(installed.events("x-docket.forwarded")) == 3
    third = session("POST", "completed", "1", more=("--resume", "latest"))
    assert third == {"calls": 2, "booked": first["booked"] + Decimal("0.0045"), "is": "lower-bound"}
    assert installed.verdict()["verdict"] in ("verified", "incomplete")
