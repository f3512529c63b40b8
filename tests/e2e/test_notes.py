"""What an agent itself puts on the record, through an installed docket and a resumed run."""

from __future__ import annotations

import json
from collections.abc import Callable

from kit.installed import AGENTS, Installed, Provider

NOTES = str(AGENTS / "keyed_notes.py")


def test_a_keyed_note_is_on_the_record_once_also_when_a_resumed_run_sends_it_again(
    installed: Installed, provider: Callable[..., Provider]
) -> None:
    upstream = provider()
    first = installed.run("run", *upstream.flags, "--", str(installed.python), NOTES)
    assert first.status == 0, first.err
    again = installed.run("run", "--resume", "latest", *upstream.flags, "--", str(installed.python), NOTES)
    assert again.status == 0, again.err

    told = [line.partition(" ") for done in (first, again) for line in done.out.splitlines()]
    recorded, conflict, replayed, conflict_again = [(status, json.loads(answer)) for status, _, answer in told]
    assert recorded[0] == replayed[0] == "200"
    assert replayed[1] == recorded[1] | {"replayed": True}
    for status, answer in (conflict, conflict_again):
        assert (status, answer["error"]["code"]) == ("409", "idempotency_conflict")

    notes = [event["private"]["said"]["value"]["text"] for event in installed.events("note")]
    assert notes == ["step 0", "step 1", "step 2", "deployed", "step 0", "step 1", "step 2"]
    deployed = installed.events("note")[3]
    assert (deployed["seq"], deployed["by"]) == (recorded[1]["seq"], "agent")
    assert "deploy-1" not in (installed.latest / "ledger.jsonl").read_text()
    assert [check for check in installed.verdict()["checks"] if check["status"] == "fail"] == []
