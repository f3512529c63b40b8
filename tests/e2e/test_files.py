"""The files of a run from outside: changes on record, what must not be written, rolling back, budgets."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from kit.files import sight
from kit.installed import Installed, Provider

BODY = '{"model":"gpt-4o","messages":[]}'
CALL = f"curl -s -H 'content-type: application/json' -d '{BODY}' $OPENAI_BASE_URL/chat/completions >/dev/null"
"""A model call of an agent."""
HARM = "echo changed > kept; rm gone; mkdir made; echo x > made/file; ln -s / link; chmod 600 mode"


def _tree(installed: Installed) -> Path:
    for name in ("kept", "gone", "mode"):
        (installed.directory / name).write_text(f"{name} before\n")
    return installed.directory


def test_every_change_is_an_event_and_no_path_is_public(installed: Installed) -> None:
    _tree(installed)
    (installed.directory / ".gitignore").write_text("ignored\n")
    done = installed.run("run", "--", "sh", "-c", f"{HARM}; mv kept moved; echo x > ignored; echo > .gitignore")
    assert done.status == 0, done.err
    changes = installed.events("fs.change")
    assert {(event["data"]["change"], event["private"]["path"]["value"]) for event in changes} == {
        ("removed", "kept"),
        ("added", "moved"),
        ("removed", "gone"),
        ("added", "made"),
        ("added", "made/file"),
        ("added", "link"),
        ("mode", "mode"),
        ("modified", ".gitignore"),
    }
    before, after = installed.events("fs.snapshot")
    assert (before["data"]["when"], after["data"]["when"]) == ("before", "after")
    assert after["data"]["changes"] == {"added": 4, "mode": 1, "modified": 1, "removed": 2}
    for event in [*changes, before, after]:
        assert "made" not in str(event["data"])
        assert not any(len(str(value)) == 64 for value in event["data"].values())
    assert not (installed.latest / "snapshot/before.jsonl").exists()
    assert installed.verdict()["verdict"] == "verified"


def test_what_must_not_be_written_is_a_violation_even_where_git_ignores_it(installed: Installed) -> None:
    (installed.directory / ".gitignore").write_text(".env\nnode_modules/\n")
    (installed.directory / ".env").write_text("KEY=1\n")
    (installed.directory / "docket.toml").write_text('[files]\ndeny_write = [".env", "*.pem"]\n')
    (installed.directory / "node_modules").mkdir()
    harm = "echo KEY=2 > .env; echo x > node_modules/a.pem; echo x > node_modules/b.js"
    assert installed.run("run", "--", "sh", "-c", harm).status == 0
    hits = installed.events("policy.violation")
    assert {(hit["data"]["rule"], hit["data"]["reason"], hit["private"]["path"]["value"]) for hit in hits} == {
        ("deny_write", "modified", ".env"),
        ("deny_write", "added", "node_modules/a.pem"),
    }


def test_a_breach_rolls_the_files_back_before_the_receipt(
    installed: Installed, provider: Callable[..., Provider]
) -> None:
    tree = _tree(installed)
    before = sight(tree)
    flags = ["--rollback-on-breach", "--max-calls", "2", "--upstream", f"openai={provider().url}/v1"]
    done = installed.run("run", *flags, "--", "sh", "-c", f"{HARM}; while true; do {CALL}; done")
    assert done.status == 42, done.err
    (tree / "docket.prom").unlink()  # docket's own last metrics
    assert sight(tree) == before
    (rolled,) = installed.events("x-docket.rollback-applied")
    assert {name: rolled["data"][name] for name in ("refused", "failed", "left")} == dict.fromkeys(
        ("refused", "failed", "left"), 0
    )
    assert rolled["data"]["done"] == len(rolled["private"]["paths"]["value"]) >= 6
    order = [event["type"] for event in installed.events()]
    assert order.index("proc.exit") < order.index("x-docket.rollback-applied") < order.index("session.end")
    assert (installed.latest / "restores" / rolled["private"]["record"]["value"]).exists()
    assert installed.verdict()["verdict"] == "verified"


def test_without_a_breach_nothing_is_rolled_back(installed: Installed) -> None:
    tree = _tree(installed)
    done = installed.run("run", "--rollback-on-breach", "--", "sh", "-c", HARM)
    assert done.status == 0, done.err
    assert (tree / "kept").read_text() == "changed\n"
    assert not installed.events("x-docket.rollback-applied")
    restored = installed.run("restore", str(installed.latest), "--apply")
    assert restored.status == 0, restored.err
    assert (tree / "kept").read_text() == "kept before\n"


def test_a_snapshot_beyond_its_budget_refuses_the_run_before_anything_is_made(installed: Installed) -> None:
    with (installed.directory / "large").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 2**20)
    flags = ["--snapshot", "--snapshot-max-bytes", "1MB"]
    done = installed.run("run", *flags, "--", "touch", "started")
    assert done.status == 2
    assert "--snapshot-max-bytes" in done.err
    assert not (installed.directory / "started").exists()
    assert not (installed.directory / ".docket").exists()


def test_a_record_that_the_agent_changed_is_said_and_not_used(installed: Installed) -> None:
    _tree(installed)
    flags = ["--rollback-on-breach", "--max-wall-clock", "1"]
    edit = "sed -i s/gone/GONE/ .docket/latest/snapshot/before.jsonl; rm gone; sleep 30"
    done = installed.run("run", *flags, "--", "sh", "-c", edit)
    assert done.status == 42, done.err
    assert [event["data"]["rule"] for event in installed.events("policy.violation")] == ["record-changed"]
    (refused,) = installed.events("x-docket.rollback-refused")
    assert refused["data"]["reason"] == "record-changed"
    assert installed.events("fs.snapshot")[-1]["data"]["intact"] is False
    assert any("not known" in limit for limit in installed.receipt()["limits"])
    assert installed.run("restore", str(installed.latest)).status == 2
