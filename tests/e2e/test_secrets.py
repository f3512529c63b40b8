"""No credential of a header, URL, environment, argument or error text reaches anything that docket writes or prints."""

from __future__ import annotations

import json
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


def _calls() -> list[str]:
    """One curl a place: header, query, response cookie; what docket or the provider answers is kept as a file."""
    body = '{"model":"gpt-4o","messages":[]}'
    chat = '"$OPENAI_BASE_URL/chat/completions{}"'
    post = f"curl -s -H 'content-type: application/json' -d '{body}'"
    calls = [f"{post} -H '{header.format(SENTINEL)}' {chat.format('')}" for header in HEADERS]
    calls += [f"{post} {chat.format(query.format(SENTINEL))}" for query in QUERIES]
    calls.append(f'{post} "$ANTHROPIC_BASE_URL/v1/messages?key={SENTINEL}" -H "x-api-key: {SENTINEL}"')
    calls.append(f'{post} "$GOOGLE_GEMINI_BASE_URL/v1beta/models/gemini-2.5-flash:generateContent?key={SENTINEL}"')
    calls.append(f'curl -s "$OPENAI_BASE_URL/no/such?token={SENTINEL}"')
    calls.append(f"{post} -H 'x-sim-step: {json.dumps({'headers': {'Set-Cookie': SENTINEL}})}' {chat.format('')}")  # noqa: TID251
    calls.append(f"{post} -H 'x-sim-step: {json.dumps({'fault': 'reset'})}' {chat.format('?key=' + SENTINEL)}")  # noqa: TID251
    return calls


REFUSED = (
    'curl -s -d "{}" -H "Authorization: Bearer ' + SENTINEL + '" "$ORIGIN/' + SENTINEL + '"',
    'curl -s -d "{}" "$ORIGIN/r/' + SENTINEL + "/openai/v1/chat/completions?key=" + SENTINEL + '"',
    f'curl -s -d \'{{"model":"o3"}}\' "$OPENAI_BASE_URL/chat/completions?key={SENTINEL}"',
    f'curl -s "$ORIGIN/docket/healthz?key={SENTINEL}"',
    f'curl -s "$ORIGIN/docket/readyz?key={SENTINEL}"',
    f'curl -s "$ORIGIN/docket/metrics?key={SENTINEL}"',
)
"""Requests that never reach the provider."""


def test_a_sentinel_in_every_place_is_found_nowhere_and_the_upstream_still_gets_it(
    installed: Installed, provider: Callable[..., Provider]
) -> None:
    upstream = provider()
    userinfo = upstream.url.replace("http://", f"http://user:{SENTINEL}@")
    (installed.directory / "docket.toml").write_text('[models]\ndeny = ["o3"]\n')
    calls = _calls()
    lines = [f"{call} -o answer-{number}" for number, call in enumerate([*calls, *REFUSED])]
    script = ['export ORIGIN="http://$(echo "$OPENAI_BASE_URL" | cut -d/ -f3)"', *lines, "exit 3"]
    flags = [
        f"--upstream={name}={userinfo}{path}" for name, path in (("openai", "/v1"), ("anthropic", ""), ("gemini", ""))
    ]
    done = installed.run(
        "run",
        *flags,
        f"--label=https://user:{SENTINEL}@host",
        "--metrics-file=last.prom",
        "--summary-file=summary.md",
        "--",
        *["sh", "-c", "\n".join(script), "--api-key", SENTINEL, f"--token={SENTINEL}"],
        env={"OPENAI_API_KEY": SENTINEL, "MY_SECRET_TOKEN": SENTINEL},
    )
    assert done.status == 3, done.err
    assert SENTINEL not in done.err
    assert upstream.report()["count"] == len(calls)
    written = [path for path in installed.directory.rglob("*") if path.is_file()]
    assert {path.name for path in written} >= {"ledger.jsonl", "checkpoints", "receipt.json", "last.prom", "summary.md"}
    assert sum(path.name.startswith("answer-") for path in written) >= len(lines) - 1
    assert [path.name for path in written if SENTINEL.encode() in path.read_bytes()] == []
    for command in (["report"], ["verify"], ["verify", "--json"], ["doctor"], ["doctor", "--json"]):
        shown = installed.run(*command, str(installed.latest))
        assert SENTINEL not in shown.out + shown.err, command
    assert SENTINEL not in installed.run("ls", "--json").out
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
