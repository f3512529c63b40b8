"""The policy as a document of the evidence format, and its digest (sections 2 and 5).

Invariant: every key stands in it with its effective value, credentials are removed, and hosts and paths are private
members, so that the document can be shown with them withheld and still gives its digest.
"""

from __future__ import annotations

from typing import Any

from docket.policy.fleet import Fleet
from docket.policy.keys import keys_of
from docket.policy.kinds import strip_userinfo, to_json
from docket.policy.model import TABLES, Policy, Upstream
from docket.primitives.canonical import Json, JsonObject, encode
from docket.primitives.digest import sha256_hex
from docket.primitives.sealed import Entropy, disclose, seal


def document(policy: Policy, entropy: Entropy) -> JsonObject:
    """The canonical document of ``policy``; its salts come from ``entropy``, so make it once a session."""
    tables: JsonObject = {name: _table(getattr(policy, member), entropy) for name, (member, _) in TABLES.items()}
    tables["upstreams"] = {upstream.name: _table(upstream, entropy) for upstream in policy.upstreams}
    return tables


def digest(document: JsonObject) -> str:
    """64 hex characters: SHA-256 of the canonical sealed ``document``."""
    return sha256_hex(encode(seal(document)))


def _table(table: Any, entropy: Entropy) -> JsonObject:
    public: JsonObject = {}
    private: dict[str, Json] = {}
    for key in keys_of(type(table)):
        value = getattr(table, key.name)
        if not key.private:
            public[key.name] = to_json(value)
        elif value is not None:
            private[key.name] = strip_userinfo(value) if isinstance(table, Upstream | Fleet) else to_json(value)
    if private:
        public["private"] = disclose(private, entropy)
    return public
