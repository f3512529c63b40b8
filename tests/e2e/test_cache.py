"""The response cache through `docket run`: a hit costs nothing, is recorded, and ends after max_hits."""

from __future__ import annotations

from collections.abc import Callable

from kit.installed import Installed, Provider

CALL = (
    'curl -sN -H \'content-type: application/json\' -d \'{"model":"gpt-4o","n":1,"stream":%s,'
    '"stream_options":{"include_usage":true},"messages":[]}\' $OPENAI_BASE_URL/chat/completions'
)
POLICY = "[cache]\nenabled = true\nmax_hits = 2\n[caps]\nmax_model_calls = 9\n"


def test_an_identical_call_is_answered_from_the_run_itself(
    installed: Installed, provider: Callable[..., Provider]
) -> None:
    upstream = provider("--input-tokens", "1000", "--output-tokens", "100")
    (installed.directory / "docket.toml").write_text(POLICY)
    calls = "; ".join(f"{CALL % stream}; echo" for stream in ("true", "true", "false", "true", "true", "true"))
    done = installed.run("run", *upstream.flags, "--", "sh", "-c", calls)
    assert done.status == 0, done.err
    assert upstream.report()["count"] == 4, "a hit never reaches the provider"
    hits = installed.events("model.cache_hit")
    assert [(hit["data"]["call"], hit["data"]["origin"]) for hit in hits] == [(2, 1), (4, 1)]
    assert {hit["data"]["saved_usd"] for hit in hits} == {"0.0035"}
    notes = [event for event in installed.events("note") if event["by"] == "boundary"]
    assert len(notes) == 1
    receipt = installed.receipt()
    assert receipt["cache"]["hits"] == 2
    assert receipt["cache"]["saved_usd"] == "0.007"
    assert receipt["totals"]["calls"] == 4
    assert receipt["totals"]["cost_usd"] == "0.014"
    assert installed.verdict()["verdict"] == "verified"
    answers = [part for part in done.out.split("data: [DONE]") if "chatcmpl" in part]
    assert len(answers) >= 5
