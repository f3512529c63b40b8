"""A receipt as an in-toto Statement v1 in a DSSE envelope, for tools that gather attestations.

Owns the predicate (what of a receipt is stated) and the envelope's bytes. Only public members of the receipt are
stated. Sources: in-toto attestation framework, Statement v1; DSSE protocol, version 1.
"""

from __future__ import annotations

from base64 import b64encode
from typing import cast

from docket.primitives.canonical import Json, JsonObject, encode
from docket.primitives.signature import SigningKey

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:docket:receipt:1"
"""Names the predicate below; docs/ci.md describes it."""
PAYLOAD_TYPE = "application/vnd.in-toto+json"
LEDGER_NAME, RECEIPT_NAME, TREE_NAME = "ledger.jsonl", "receipt.json", "tree"


def statement(
    receipt: JsonObject, *, ledger_sha256: str, receipt_sha256: str, tree: str | None, verdict: str
) -> JsonObject:
    """What the run was, over the digests of its files; ``tree`` is the digest of the watched tree afterwards."""
    subjects = [(LEDGER_NAME, ledger_sha256), (RECEIPT_NAME, receipt_sha256)]
    if tree is not None:
        subjects.append((TREE_NAME, tree))
    session, ledger = cast(JsonObject, receipt["session"]), cast(JsonObject, receipt["ledger"])
    return {
        "_type": STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in subjects],
        "predicateType": PREDICATE,
        "predicate": {
            "docket": receipt["docket"],
            "created_at": receipt["created_at"],
            "tool": receipt["tool"],
            "verdict": verdict,
            "session": {name: value for name, value in session.items() if name != "private"},
            "totals": receipt["totals"],
            "policy_sha256": cast(JsonObject, receipt["policy"])["digest"],
            "ledger": {"size": ledger["size"], "root": ledger["root"]},
            "limits": receipt["limits"],
        },
    }


def pre_authentication(payload: bytes) -> bytes:
    """What is signed: DSSE's PAE of an in-toto payload."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def envelope(stated: JsonObject, key: SigningKey) -> JsonObject:
    """``stated`` in a DSSE envelope signed by ``key``; ``keyid`` is the public key in hex."""
    payload = encode(stated)
    signature: Json = {
        "keyid": key.public.hex(),
        "sig": b64encode(key.sign(pre_authentication(payload))).decode(),
    }
    return {"payload": b64encode(payload).decode(), "payloadType": PAYLOAD_TYPE, "signatures": [signature]}
