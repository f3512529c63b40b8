"""``docket stop``: a run that goes on is ended in order, and nothing new is let through from that moment."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

from kit.installed import Installed, Provider, environment

AGENT = """
call() {
  curl -s -o /dev/null -w "%{http_code}\\n" -d "$BODY" -H "Content-Type: application/json" \\
    "$OPENAI_BASE_URL/chat/completions"
}
trap 'call; exit 3' TERM
echo up
while :; do read -r _ || sleep 0.05; done
"""
BODY = '{"model":"gpt-4o","messages":[{"role":"user","content":"x"}],"max_tokens":5}'


def test_a_run_is_ended_in_order_and_its_last_call_is_refused(
    installed: Installed, provider: Callable[..., Provider]
) -> None:
    upstream = provider()
    command = [str(installed.docket), "run", *upstream.flags, "--", "sh", "-c", AGENT]
    with subprocess.Popen(
        command,
        cwd=installed.directory,
        env=environment({"BODY": BODY}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        stopped = installed.run("stop")
        out, err = process.communicate(timeout=60)
    assert (stopped.status, stopped.err) == (0, "")
    assert stopped.out == f"{installed.latest.resolve().name} has ended\n"
    assert out == "400\n", "the call that the agent made when it was asked to end"
    receipt = installed.receipt()
    assert (process.returncode, receipt["session"]["outcome"]) == (3, "interrupted"), err
    assert receipt["resilience"]["denied_by_code"] == {"run_ended": 1}
    assert upstream.report()["requests"] == []
    assert installed.verdict()["verdict"] == "verified"


def test_a_run_that_outlives_the_grace_is_told_so_and_still_ends(installed: Installed) -> None:
    (installed.directory / "docket.toml").write_text("[caps]\ngrace_seconds = 2\n")
    script = "trap '' TERM; echo up; while :; do sleep 0.05; done"
    with subprocess.Popen(
        [str(installed.docket), "run", "--", "sh", "-c", script],
        cwd=installed.directory,
        env=environment({}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        done = installed.run("stop", "--grace", "0.1")
        process.communicate(timeout=60)
    assert done.status == 1
    assert "goes on after 0.1 s" in done.err
    assert installed.receipt()["session"]["outcome"] == "interrupted"
