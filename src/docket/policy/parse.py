"""TOML text and flags to a Policy. Owns every error about them; nothing is ignored, nothing guessed.

Invariant: an error names the file, the key, what was expected and, for an unknown name, the nearest known one.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from docket.errors import PolicyError
from docket.policy.keys import REQUIRED, Key, keys_of
from docket.policy.kinds import Url
from docket.policy.model import BUILT_IN_UPSTREAMS, PROTOCOLS, TABLES, Policy, Upstream

MAX_POLICY_BYTES = 1024 * 1024
"""A policy file is written by hand; more than 1 MiB is the wrong file."""
MAX_UPSTREAMS = 64
"""Each costs an environment variable and a row in the receipt."""
RESERVED_NAMES = frozenset({"docket", "private"})
"""``docket`` is the boundary's own path below the token; ``private`` marks sealed members in documents."""
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
UPSTREAMS = "upstreams"


def parse(text: str, source: str = "docket.toml") -> Policy:
    """The policy that the TOML ``text`` of the file ``source`` states. Raises PolicyError."""
    if len(text) > MAX_POLICY_BYTES:
        raise PolicyError(f"longer than {MAX_POLICY_BYTES} bytes", path=source)
    try:
        document = tomllib.loads(text, parse_float=Decimal)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise PolicyError(f"not TOML: {error}", path=source, hint="see https://toml.io for the syntax") from error
    tables: dict[str, Any] = {}
    for name, table in document.items():
        if name == UPSTREAMS:
            tables[UPSTREAMS] = _upstreams(table, source)
            continue
        if name not in TABLES:
            raise _unknown(name, (*TABLES, UPSTREAMS), source, "table" if isinstance(table, dict) else "key")
        member, cls = TABLES[name]
        tables[member] = cls(**_values(table, cls, name, source))
    return Policy(**tables)


def override(policy: Policy, flags: Mapping[str, tuple[str, str]], upstreams: tuple[str, ...] = ()) -> Policy:
    """``policy`` with flags applied.

    ``flags`` maps a dotted key (``caps.max_usd``) to (flag, text); ``upstreams`` are texts of ``--upstream``.
    Raises PolicyError naming the flag.
    """
    for dotted, (flag, text) in flags.items():
        table, _, name = dotted.partition(".")
        member, cls = TABLES[table]
        key = next(key for key in keys_of(cls) if key.name == name)
        try:
            value = key.kind.read_text(text)
        except ValueError as error:
            raise PolicyError(str(error), path=flag) from error
        policy = replace(policy, **{member: replace(getattr(policy, member), **{name: value})})
    for text in upstreams:
        policy = replace(policy, upstreams=_place(_upstream_flag(text, policy), policy.upstreams))
    return policy


def _values(table: object, cls: type, name: str, source: str) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise PolicyError("is a table, not a value", path=f"{source}: {name}", hint=f"write [{name}] on its own line")
    known = {key.name: key for key in keys_of(cls)}
    values: dict[str, Any] = {}
    for written, value in table.items():
        place = f"{source}: {name}.{written}"
        if written not in known:
            raise _unknown(written, tuple(known), place, "key", elsewhere=True)
        values[written] = _value(known[written], value, place)
    for key in known.values():
        if key.default is REQUIRED and key.name not in values:
            raise PolicyError(f"is missing; it must be {key.kind.expects}", path=f"{source}: {name}.{key.name}")
    return values


def _value(key: Key, value: object, place: str) -> Any:
    try:
        return key.kind.read(value)
    except ValueError as error:
        raise PolicyError(str(error), path=place) from error


def _unknown(written: str, known: tuple[str, ...], place: str, what: str, *, elsewhere: bool = False) -> PolicyError:
    """The error about a name that is not known, with the nearest one that is, looked for in other tables last."""
    near = difflib.get_close_matches(written, known, n=1, cutoff=0.5)
    if near:
        hint = f"the nearest known {what} is {near[0]!r}"
    else:
        others = {key.name: f"{name}.{key.name}" for name, (_, cls) in TABLES.items() for key in keys_of(cls)}
        far = difflib.get_close_matches(written, tuple(others), n=1, cutoff=0.5) if elsewhere or what == "key" else []
        hint = f"the nearest known key is {others[far[0]]!r}" if far else f"known here: {', '.join(known)}"
    path = place if elsewhere else f"{place}: {written}"
    return PolicyError(f"unknown {what}", path=path, hint=hint)


def _upstreams(table: object, source: str) -> tuple[Upstream, ...]:
    if not isinstance(table, dict) or not all(isinstance(entry, dict) for entry in table.values()):
        raise PolicyError("is a table of tables", path=f"{source}: {UPSTREAMS}", hint="write [upstreams.NAME]")
    if len(table) > MAX_UPSTREAMS:
        raise PolicyError(f"more than {MAX_UPSTREAMS} upstreams", path=f"{source}: {UPSTREAMS}")
    upstreams: tuple[Upstream, ...] = BUILT_IN_UPSTREAMS
    for name, entry in reversed(table.items()):
        place = f"{UPSTREAMS}.{name}"
        _check_name(name, f"{source}: {place}")
        built_in = next((upstream for upstream in BUILT_IN_UPSTREAMS if upstream.name == name), None)
        if built_in is not None and isinstance(entry, dict):
            entry = {"base_url": built_in.base_url, "protocol": built_in.protocol} | entry
        given = built_in is None or "base_url" in table[name]
        upstreams = _place(Upstream(name=name, given=given, **_values(entry, Upstream, place, source)), upstreams)
    return upstreams


def _place(upstream: Upstream, others: tuple[Upstream, ...]) -> tuple[Upstream, ...]:
    """``upstream`` first, in place of its namesake and of a built-in one of the same protocol."""
    kept = [
        other
        for other in others
        if other.name != upstream.name and (other.given or other.protocol != upstream.protocol)
    ]
    return (upstream, *kept)


def _check_name(name: str, place: str) -> None:
    if not _NAME.fullmatch(name) or name in RESERVED_NAMES:
        reserved = ", ".join(sorted(RESERVED_NAMES))
        raise PolicyError(
            f"{name!r} is no name for an upstream",
            path=place,
            hint=f"use up to 32 of a-z, 0-9, _ and -, and none of: {reserved}",
        )


def _upstream_flag(text: str, policy: Policy) -> Upstream:
    """The upstream that ``NAME=URL`` or ``NAME:PROTOCOL=URL`` means."""
    left, equals, url = text.partition("=")
    name, _, protocol = left.partition(":")
    if not equals:
        raise PolicyError("must be NAME=URL or NAME:PROTOCOL=URL", path="--upstream")
    _check_name(name, "--upstream")
    known = policy.upstream(name)
    if not protocol:
        protocol = known.protocol if known else name if name in PROTOCOLS else PROTOCOLS[0]
    if protocol not in PROTOCOLS:
        raise _unknown(protocol, PROTOCOLS, "--upstream", "protocol")
    try:
        base_url = Url().read(url)
    except ValueError as error:
        raise PolicyError(str(error), path=f"--upstream {name}") from error
    if known is not None and known.protocol == protocol:
        return replace(known, base_url=base_url, given=True)
    return Upstream(name=name, base_url=base_url, protocol=protocol)
