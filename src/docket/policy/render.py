"""A policy as the commented docket.toml that ``docket init`` writes.

Invariant: what it writes parses back to the policy it was given. A key at its default is shown commented out, so that
the file says only what its owner chose, and teaches the rest.
"""

from __future__ import annotations

import textwrap
from typing import Any

import tomli_w

from docket.families import FAMILIES
from docket.policy.keys import REQUIRED, Key, keys_of
from docket.policy.kinds import to_toml
from docket.policy.model import BUILT_IN_UPSTREAMS, TABLES, Policy, Upstream

WIDTH = 110
HEADER = """\
docket's policy: what a supervised run may do. `docket run` reads ./docket.toml, or the file of --policy; flags win.
Every key is listed; one that is commented out shows its default, or an example where there is none."""


def render(policy: Policy) -> str:
    """TOML text with every key of every table, commented."""
    blocks = [_comment(HEADER)]
    for name, (member, cls) in TABLES.items():
        blocks.append(_table(name, getattr(policy, member), cls))
    own = [upstream for upstream in policy.upstreams if upstream not in BUILT_IN_UPSTREAMS]
    blocks.extend(_table(f"upstreams.{upstream.name}", upstream, Upstream) for upstream in own)
    if not own:
        blocks.append(_upstream_example())
    return "\n".join(blocks)


def summary(cls: type) -> str:
    """The docstring of a table's dataclass, as prose on one line."""
    return " ".join((cls.__doc__ or "").split())


def toml_line(name: str, value: object) -> str:
    """``name = value`` as TOML."""
    return tomli_w.dumps({name: to_toml(value)}).rstrip("\n").replace("\n    ", " ").replace(",\n]", " ]")


def _table(name: str, table: Any, cls: type) -> str:
    lines = [_comment(summary(cls)) + f"[{name}]\n"]
    lines += [_comment(key.comment) + _line(key, getattr(table, key.name)) for key in keys_of(cls)]
    return "\n".join(lines)


def _line(key: Key, value: object) -> str:
    if key.default is REQUIRED or value != key.default:
        return toml_line(key.name, value) + "\n"
    shown = f"{key.name} = {key.example}" if key.example else toml_line(key.name, value)
    return f"# {shown}\n"


def _upstream_example() -> str:
    lines = [_comment(summary(Upstream)), "# [upstreams.openai]\n"]
    example = next(upstream for upstream in BUILT_IN_UPSTREAMS if upstream.name == FAMILIES[0].name)
    for key in keys_of(Upstream):
        value = getattr(example, key.name)
        shown = f"{key.name} = {key.example}" if value in (None, ()) else toml_line(key.name, value)
        lines.append(_comment(key.comment) + f"# {shown}\n")
    return "".join(lines)


def _comment(text: str) -> str:
    return "".join(f"# {line}\n" for paragraph in text.splitlines() for line in textwrap.wrap(paragraph, WIDTH - 2))
