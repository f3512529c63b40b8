"""The agent's environment: base-URL variables that point at the boundary, and a proxy setting that spares loopback.

Invariant: nothing of the parent's environment is lost but what is replaced, and every replaced name is recorded. Knows
which variable real clients read for each protocol; what one agent needs besides stands in ``docket.agents``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from docket.families import BY_NAME
from docket.policy.model import Policy

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Names that a client must never send to a proxy. Not ``[::1]``: httpx 0.28 and the anthropic SDK 2.14 refuse to start
when NO_PROXY holds it (``Invalid port: ':1]'``), and the boundary listens on 127.0.0.1 alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One upstream as the agent sees it: its protocol, and the base URL at the boundary."""

    name: str
    protocol: str
    base_url: str


def gateway(environ: Mapping[str, str], protocol: str) -> tuple[str, str] | None:
    """The base URL that the parent already sets for ``protocol`` (a company gateway), as (variable, URL)."""
    for variable in _variables(protocol):
        url = environ.get(variable, "")
        if urlsplit(url).scheme in ("http", "https"):
            return variable, url
    return None


def effective_policy(policy: Policy, environ: Mapping[str, str]) -> Policy:
    """``policy`` with each built-in upstream at the address that the parent's environment gives for its protocol."""
    upstreams = []
    for upstream in policy.upstreams:
        found = None if upstream.given else gateway(environ, upstream.protocol)
        upstreams.append(upstream if found is None else replace(upstream, base_url=found[1]))
    return replace(policy, upstreams=tuple(upstreams))


def agent_environment(environ: Mapping[str, str], routes: tuple[Route, ...], docket: str) -> dict[str, str]:
    """The environment of the agent: the parent's, with each route's variables and loopback spared by proxies.

    The first route of a protocol gets the protocol's variables; every route gets ``DOCKET_UPSTREAM_<NAME>``.
    """
    child = dict(environ)
    child["DOCKET_RUN"] = docket
    taken: set[str] = set()
    for route in routes:
        child[f"DOCKET_UPSTREAM_{_shell_name(route.name)}"] = route.base_url
        for variable in _variables(route.protocol):
            if variable not in taken:
                taken.add(variable)
                child[variable] = route.base_url
    bypass = no_proxy(environ)
    child["NO_PROXY"] = child["no_proxy"] = bypass
    return child


def no_proxy(environ: Mapping[str, str]) -> str:
    """NO_PROXY with its entries kept and loopback gained; ``*`` spares everything already and stays as it is."""
    entries: list[str] = []
    for name in ("no_proxy", "NO_PROXY"):
        for entry in environ.get(name, "").split(","):
            if entry.strip() and entry.strip() not in entries:
                entries.append(entry.strip())
    if "*" in entries:
        return "*"
    return ",".join(entries + [host for host in LOOPBACK if host not in entries])


def changed_names(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Names, sorted, whose value the agent sees otherwise than docket does."""
    return sorted(name for name in after if before.get(name) != after[name])


def _variables(protocol: str) -> tuple[str, ...]:
    return BY_NAME[protocol].variables if protocol in BY_NAME else ()


def _shell_name(name: str) -> str:
    return "".join(character if character.isalnum() else "_" for character in name).upper()
