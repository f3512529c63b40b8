"""The policy document: every key, no credential, hosts withheld without changing the digest."""

from __future__ import annotations

import copy

from docket.policy.document import digest, document
from docket.policy.keys import keys_of
from docket.policy.model import TABLES, Policy, Upstream
from docket.policy.parse import parse
from docket.primitives.canonical import encode
from docket.primitives.sealed import commitment, seal


def _entropy(size: int) -> bytes:
    return b"\x07" * size


def test_every_key_stands_in_the_document() -> None:
    shown = document(Policy(), _entropy)
    for name, (_, cls) in TABLES.items():
        table = shown[name]
        assert isinstance(table, dict)
        for key in keys_of(cls):
            assert key.private or key.name in table


def test_credentials_of_a_base_url_are_removed_and_said_to_have_been_there() -> None:
    policy = parse('[upstreams.gate]\nbase_url = "https://u:SENTINEL@gate.example/v1"\nprotocol = "openai"')
    text = encode(document(policy, _entropy)).decode()
    assert "SENTINEL" not in text
    assert "[removed]@gate.example/v1" in text


def test_withholding_a_host_keeps_the_digest_and_changing_it_does_not() -> None:
    shown = document(Policy(), _entropy)
    withheld, changed = copy.deepcopy(shown), copy.deepcopy(shown)
    private = withheld["upstreams"]["openai"]["private"]  # type: ignore[index,call-overload]
    url = private["base_url"]  # type: ignore[index,call-overload]
    private["base_url"] = {"commitment": commitment("base_url", url["salt"], url["value"])}  # type: ignore
    assert digest(withheld) == digest(shown)
    changed["upstreams"]["openai"]["private"]["base_url"]["value"] = "https://other"  # type: ignore
    assert digest(changed) != digest(shown)


def test_any_effective_difference_changes_the_digest() -> None:
    digests = {
        digest(document(parse(text), _entropy))
        for text in ("", "[caps]\nmax_usd = 1", "[caps]\nmax_usd = 2", "[models]\ndeny = ['x']", "[policy]\nname = 'a'")
    }
    assert len(digests) == 5


def test_hosts_and_paths_are_private_members_and_nothing_else_is() -> None:
    tables = {name: cls for name, (_, cls) in TABLES.items()} | {"upstreams": Upstream}
    private = {f"{name}.{key.name}" for name, cls in tables.items() for key in keys_of(cls) if key.private}
    assert private == {
        "upstreams.base_url",
        "files.watch",
        "files.ignore",
        "files.deny_write",
        "health.listen",
        "health.metrics_file",
        "keys.dotenv",
        "keys.files",
        "keys.commands",
        "keys.keyring",
        "fleet.store",
    }


def test_a_private_value_stands_nowhere_in_public() -> None:
    policy = parse('[health]\nlisten = "10.11.12.13:9464"\n[files]\nwatch = ["SENTINEL"]')
    sealed = seal(document(policy, _entropy))
    assert b"SENTINEL" not in encode(sealed)
    assert b"10.11.12.13" not in encode(sealed)
