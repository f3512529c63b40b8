"""Money through `docket run`: quota mode, what the agent is told, and two hundred callers at once."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from kit.installed import Installed, Provider, agent

BODY = '{"model":"gpt-4o","max_tokens":100,"messages":[]}'
CALL = f"curl -s -H 'content-type: application/json' -d '{BODY}' $OPENAI_BASE_URL/chat/completions"


def test_quota_mode_shows_no_dollar_figure_at_all(installed: Installed, provider: Callable[..., Provider]) -> None:
    upstream = provider("--input-tokens", "1000", "--output-tokens", "100")
    done = installed.run(
        "run",
        "--budget-mode",
        "quota",
        "--max-tokens",
        "2000",
        *upstream.flags,
        "--",
        "sh",
        "-c",
        f"{CALL}; {CALL}; {CALL}; curl -s $DOCKET_BUDGET_URL",
    )
    assert done.status == 42, "two calls of 1,100 tokens reach the cap of 2,000"
    receipt = installed.receipt()
    assert receipt["session"]["breach"]["cap"] == "max_tokens"
    assert receipt["totals"]["calls"] == 2
    assert "cost_usd" not in receipt["totals"]
    assert receipt["caps"]["usd"] == {"booked": "0"}
    assert receipt["prices"]["rows"] == []
    assert "$" not in done.err
    for event in installed.events("model.response"):
        assert "usd" not in json.dumps(event["data"])  # noqa: TID251 - a search in its text
    assert installed.verdict()["verdict"] == "verified"


def test_a_cap_in_dollars_that_quota_mode_would_ignore_is_refused_by_name(installed: Installed) -> None:
    done = installed.run("run", "--budget-mode", "quota", "--max-usd", "1", "--", "true")
    assert done.status == 2
    assert "--max-usd caps nothing under --budget-mode quota" in done.err
    assert not (installed.directory / ".docket").exists(), "nothing was started"


def test_the_agent_is_told_what_is_left(installed: Installed, provider: Callable[..., Provider]) -> None:
    upstream = provider("--input-tokens", "1000", "--output-tokens", "100")
    done = installed.run(
        "run",
        "--max-usd",
        "0.1",
        "--max-calls",
        "5",
        *upstream.flags,
        "--",
        "sh",
        "-c",
        f"{CALL} >/dev/null; curl -s $DOCKET_BUDGET_URL",
    )
    left = json.loads(done.out)
    assert left["caps"]["max_usd"] == {"limit": "0.1", "booked": "0.0035", "reserved": "0", "left": "0.0965"}
    assert left["caps"]["max_model_calls"]["left"] == "4"
    assert left["breach"] is None
    assert left["calls_in_flight"] == 0


@pytest.mark.parametrize(
    ("hold", "seed"),
    [
        pytest.param(hold, seed, marks=[] if seed == 1 else [pytest.mark.long])
        for hold in ("expected", "worst")
        for seed in (1, 2, 3)
    ],
)
def test_two_hundred_callers_keep_a_cap_of_one_dollar_and_can_use_it(
    hold: str, seed: int, installed: Installed, provider: Callable[..., Provider]
) -> None:
    """Calls that cost 0.01 to 0.05 dollars, all callers at once, each until it is refused for good."""
    upstream = provider()
    policy = f'[caps]\nmax_usd = 1\nhold = "{hold}"\non_breach = "deny"\nhold_wait_seconds = 60\n'
    (installed.directory / "docket.toml").write_text(policy)
    done = installed.run("run", *upstream.flags, "--", *agent("crowd.py", str(seed)), timeout=100)
    assert done.status == 42, done.err
    receipt, stated = installed.receipt(), upstream.report()
    usd = receipt["caps"]["usd"]
    booked, billed = float(usd["booked"]), float(usd["billed"])
    assert booked <= (1.05 if hold == "expected" else 1.0)
    assert billed >= 0.9
    assert booked == billed
    assert receipt["totals"]["calls"] == stated["count"]
    assert json.loads(done.out)["refused"] == 200
    assert receipt["totals"]["tokens"]["output"] == stated["output_tokens"]
    assert installed.verdict()["verdict"] == "verified"


def test_a_call_that_waits_for_money_in_vain_is_told_an_estimate(
    installed: Installed, provider: Callable[..., Provider]
) -> None:
    upstream = provider("--input-tokens", "10", "--output-tokens", "10", "--latency-ms", "1500")
    policy = '[caps]\nmax_usd = 0.0015\nhold_wait_seconds = 0\non_breach = "deny"\n'
    (installed.directory / "docket.toml").write_text(policy)
    script = f"{CALL} >/dev/null & sleep 0.5; {CALL} -o /dev/null -w '%{{http_code}} %header{{retry-after}}'; wait"
    done = installed.run("run", *upstream.flags, "--", "sh", "-c", script)
    assert done.out.startswith("429 1"), (done.out, done.err)
    (denied,) = installed.events("model.denied")
    assert (denied["data"]["code"], denied["data"]["final"], denied["data"]["estimated"]) == ("max_usd", False, True)
