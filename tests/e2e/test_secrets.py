"""No credential of a header, URL, environment, argument or error text reaches anything that docket writes or prints."""

from __future__ import annotations

from collections.abc import Callable

from kit.installed import Installed, Provider

SENTINEL = "SENTINEL9f3aSENTINEL"
HEADERS = (
    "Authorization: Bearer {}",
    "AUTHORIZATION: Basic {}",
    "X-Api-Key: {}",
    "api-key: {}",
    "x-goog-api-key: {}",
    "Proxy-Authorization: Basic {}",
    "Cookie: session={}",
    "x-auth-token: {}",
    "anthropic-workspace-id: {}",
    "x-unheard-of: {}",
)
QUERIES = ("?key={}", "?api_key={}", "?access_token={}", "?alt=sse&key={}")


def test_a_sentinel_in_every_place_is_found_nowhere_and_the_upstream_still_gets_it(
    installed: Installed, provider: Callable[..., Provider]
) -> None:
    upstream = provider()
    userinfo = upstream.url.replace("http://", f"http://user:{SENTINEL}@")
    body = '{"model":"gpt-4o","messages":[]}'
    calls = [
        f"curl -s -o /dev/null -H 'content-type: application/json' -H '{header.format(SENTINEL)}' -d '{body}'"
        ' "$OPENAI_BASE_URL/chat/completions"'
        for header in HEADERS
    ]
    calls += [
        f"curl -s -o /dev/null -d '{body}' \"$OPENAI_BASE_URL/chat/completions{query.format(SENTINEL)}\""
        for query in QUERIES
    ]
    calls.append(f'curl -s "$OPENAI_BASE_URL/no/such?token={SENTINEL}" -o /dev/null')
    answer_cookie = '{"headers": {"Set-Cookie": "id=' + SENTINEL + '"}}'
    calls.append(
        f"curl -s -o /dev/null -H 'x-sim-step: {answer_cookie}' -d '{body}' \"$OPENAI_BASE_URL/chat/completions\""
    )
    without_token = f'curl -s "http://$(echo "$OPENAI_BASE_URL" | cut -d/ -f3)/{SENTINEL}" -o /dev/null'
    done = installed.run(
        "run",
        "--upstream",
        f"openai={userinfo}/v1",
        "--",
        "sh",
        "-c",
        "\n".join([*calls, without_token]) + "\nexit 3",
        "--api-key",
        SENTINEL,
        f"--token={SENTINEL}",
        env={"OPENAI_API_KEY": SENTINEL, "MY_SECRET_TOKEN": SENTINEL},
    )
    assert done.status == 3, done.err
    assert SENTINEL not in done.err
    report = upstream.report()
    assert report["count"] == len(calls)
    written = [path for path in installed.directory.rglob("*") if path.is_file()]
    assert {path.name for path in written} >= {"ledger.jsonl", "checkpoints", "receipt.json"}
    leaks = [path.name for path in written if SENTINEL.encode() in path.read_bytes()]
    assert not leaks
    for command in (["report"], ["verify"], ["verify", "--json"]):
        shown = installed.run(*command, str(installed.latest))
        assert SENTINEL not in shown.out + shown.err, command
    assert "[redacted]" in str(installed.receipt()["session"]["private"]["argv"])


def test_an_upstream_that_cannot_be_reached_names_no_credential(installed: Installed) -> None:
    body = '{"model":"gpt-4o","messages":[]}'
    done = installed.run(
        "run",
        "--upstream",
        f"openai=http://user:{SENTINEL}@127.0.0.1:9/v1",
        "--",
        "sh",
        "-c",
        f"curl -s -d '{body}' \"$OPENAI_BASE_URL/chat/completions?key={SENTINEL}\"",
    )
    assert SENTINEL not in done.out + done.err
    assert "docket" in done.out
    for path in installed.directory.rglob("*"):
        assert not path.is_file() or SENTINEL.encode() not in path.read_bytes(), path


def test_a_wrong_upstream_flag_is_refused_without_its_credential(installed: Installed) -> None:
    done = installed.run("run", "--upstream", f"openai=ftp://u:{SENTINEL}@h/v1?key={SENTINEL}", "--", "true")
    assert done.status == 2
    assert SENTINEL not in done.err
    assert "[removed]" in done.err
