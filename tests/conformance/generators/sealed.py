"""Private members: withheld without a trace in any hash, altered never."""

from __future__ import annotations

from typing import Any

from conformance.catalog import vector
from conformance.scene import edit_bare, edit_event, short, withheld
from kit.recordings import Files, Recording


def change_private(phrase: str, comment: str, change: Any, check: str = "ledger.form", rules: str = "S-1") -> None:
    vector("sealed", phrase, "failed", check, rules=rules, comment=comment)(
        lambda: edit_event(short().files(), 0, lambda event: change(event["private"]))
    )


@vector("sealed", "accept-some-withheld", "verified", rules="S-2 S-3 S-4", comment="cwd and argv are commitments only.")
def _() -> Files:
    return withheld(short(signed=True).files(), "cwd", "argv")


@vector("sealed", "accept-all-withheld", "verified", rules="S-2 S-3 S-4", comment="Every private member is withheld.")
def _() -> Files:
    return withheld(short(signed=True).files())


@vector(
    "sealed",
    "accept-receipt-withheld-ledger-not",
    "verified",
    rules="S-3",
    comment="The receipt withholds what the ledger beside it discloses.",
)
def _() -> Files:
    files = short().files()
    return {**files, "receipt.json": withheld(files)["receipt.json"]}


@vector(
    "sealed",
    "accept-any-private-value",
    "verified",
    rules="S-2 C-5",
    comment="Private values of every kind, with members called private, salt and commitment inside: data, hashed as it stands.",
)
def _() -> Files:
    run = Recording()
    run.start()
    run.note()
    inner = {"private": {"private": {}}, "salt": 1, "value": [], "commitment": "x"}
    run.add(
        "note",
        {},
        by="agent",
        private={"text": "😀\u2028", "null": None, "object": inner, "list": [[], -1], "no": False, "__proto__": 1},
    )
    run.end()
    return run.files()


@vector(
    "sealed",
    "accept-private-inside-data",
    "verified",
    rules="S-1 S-3",
    comment="A private member further down in data is sealed like the one of the event.",
)
def _() -> Files:
    run = Recording()
    run.start()
    run.note()
    salt = "ab" * 16
    run.add(
        "x-future",
        {"list": [{"private": {"a": {"salt": salt, "value": 1}}}], "private": {"b": {"salt": salt, "value": "two"}}},
    )
    run.end()
    return run.files()


@vector(
    "sealed",
    "accept-word-private-in-text",
    "verified",
    rules="S-1",
    comment="A string that reads like a private member is a string.",
)
def _() -> Files:
    run = Recording()
    run.start()
    run.note()
    run.add("note", {"text": '"private":{"a":1}', "n": '{"private":'}, private={"text": '"private":'})
    run.end()
    return run.files()


change_private(
    "value-altered",
    "Another value under the same salt.",
    lambda p: p["cwd"].update(value="/home/eve"),
    "ledger.hash",
    "S-2",
)
change_private("salt-altered", "Another salt.", lambda p: p["cwd"].update(salt="0" * 32), "ledger.hash", "S-2")
change_private(
    "commitment-altered",
    "A commitment to nothing.",
    lambda p: p.update(cwd={"commitment": "0" * 64}),
    "ledger.hash",
    "S-3",
)
change_private(
    "swapped-between-names",
    "Two members of one event change places.",
    lambda p: p.update(cwd=p["argv"], argv=p["cwd"]),
    "ledger.hash",
    "S-2",
)
change_private("member-dropped", "A private member is gone.", lambda p: p.pop("cwd"), "ledger.hash", "S-3")
change_private(
    "member-added",
    "A private member is added.",
    lambda p: p.update(more={"salt": "0" * 32, "value": 1}),
    "ledger.hash",
    "S-3",
)
change_private("emptied", "An empty private object.", lambda p: p.clear())
change_private("salt-short", "A salt of 31 characters.", lambda p: p["cwd"].update(salt="0" * 31))
change_private("salt-upper-case", "A salt in upper-case hex.", lambda p: p["cwd"].update(salt="A" * 32))
change_private("salt-missing", "Disclosed without a salt.", lambda p: p["cwd"].pop("salt"))
change_private("value-and-commitment", "Both forms at once.", lambda p: p["cwd"].update(commitment="0" * 64))
change_private("commitment-short", "A commitment of 63 characters.", lambda p: p.update(cwd={"commitment": "0" * 63}))
change_private("sealed-form", "The sealed form where a document belongs.", lambda p: p.update(cwd="0" * 64))
change_private(
    "named-private", "A private member named private.", lambda p: p.update(private={"salt": "0" * 32, "value": 1})
)
change_private("member-is-a-list", "A list in place of a private member.", lambda p: p.update(cwd=[]))


@vector("sealed", "private-is-a-string", "failed", "ledger.form", rules="S-1", comment="private is no object.")
def _() -> Files:
    return edit_event(short().files(), 0, lambda event: event.update(private="none"))


@vector("sealed", "private-is-null", "failed", "ledger.form", rules="S-1", comment="private is null.")
def _() -> Files:
    return edit_event(short().files(), 0, lambda event: event.update(private=None))


@vector("sealed", "private-removed", "failed", "ledger.hash", rules="S-3", comment="The private object is gone.")
def _() -> Files:
    return edit_event(short().files(), 0, lambda event: event.pop("private"))


@vector(
    "sealed",
    "swapped-between-events",
    "failed",
    "ledger.hash",
    rules="S-2",
    comment="Two events of one type exchange their private members.",
)
def _() -> Files:
    files = short(calls=2).files()
    lines: list[Any] = []
    edit_event(files, 2, lambda event: lines.append(event["private"]))
    edit_event(files, 4, lambda event: lines.append(event["private"]))
    files = edit_event(files, 2, lambda event: event.update(private=lines[1]))
    return edit_event(files, 4, lambda event: event.update(private=lines[0]))


@vector(
    "sealed",
    "receipt-value-altered",
    "failed",
    "signature.run",
    rules="S-2 R-13",
    comment="A disclosed label of the receipt is altered.",
)
def _() -> Files:
    return edit_bare(short(), lambda receipt: receipt["session"]["private"]["label"].update(value="weekly"))


@vector(
    "sealed",
    "receipt-policy-value-altered",
    "failed",
    "policy.digest",
    rules="S-2 R-10",
    comment="A disclosed value of the policy document is altered.",
)
def _() -> Files:
    return edit_bare(short(), lambda receipt: receipt["policy"]["document"]["private"]["source"].update(value="/etc"))


@vector(
    "sealed",
    "receipt-start-value-altered",
    "failed",
    "starts.event",
    rules="S-2 R-3",
    comment="A disclosed value of the start in the receipt is altered.",
)
def _() -> Files:
    return edit_bare(short(), lambda receipt: receipt["starts"][0]["event"]["private"]["cwd"].update(value="/"))


@vector(
    "sealed",
    "receipt-private-empty",
    "failed",
    "receipt.form",
    rules="S-1",
    comment="An empty private object in a receipt.",
)
def _() -> Files:
    return edit_bare(short(), lambda receipt: receipt["session"].update(private={}))
