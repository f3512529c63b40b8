"""The agent's environment: base-URL variables that point at the boundary, and a proxy setting that spares loopback.

Invariant: nothing of the parent's environment is lost but what is replaced, and every replaced name is recorded. Knows
which variable real clients read for each protocol; what one agent needs besides stands in ``docket.agents``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from docket.errors import PolicyError
from docket.families import BY_NAME
from docket.policy.model import BUILT_IN_UPSTREAMS, Policy, Upstream

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
    family = BY_NAME.get(protocol)
    for variable in family.variables if family else ():
        url = environ.get(variable, "")
        if family and urlsplit(url).scheme in ("http", "https"):
            return variable, family.given(variable, url)
    return None


def effective_policy(policy: Policy, environ: Mapping[str, str]) -> Policy:
    """``policy`` with each built-in upstream at the address that the parent's environment gives for its protocol.

    One that not every run has is left out where the environment holds neither a key nor an address of it.
    """
    upstreams = []
    for upstream in policy.upstreams:
        address = upstream.base_url if upstream.given else _address(upstream, environ)
        if address is not None:
            upstreams.append(replace(upstream, base_url=address))
    return replace(policy, upstreams=tuple(upstreams))


def _address(upstream: Upstream, environ: Mapping[str, str]) -> str | None:
    """The address of an upstream to which the policy gives none; None for a built-in one that this run does not have.

    Raises PolicyError where the policy names it and nothing says where it is.
    """
    family, named = BY_NAME[upstream.protocol], all(upstream is not built_in for built_in in BUILT_IN_UPSTREAMS)
    found = gateway(environ, upstream.protocol)
    if found is not None:
        return found[1]
    address = family.address(environ) if named or family.used(environ) else None
    if address is None and named:
        raise PolicyError(
            "its address is not known",
            path=f"upstreams.{upstream.name}",
            hint=f"give base_url, or set {' or '.join((*family.variables, *family.places))}",
        )
    return address


def agent_environment(environ: Mapping[str, str], routes: tuple[Route, ...], docket: str) -> dict[str, str]:
    """The environment of the agent: the parent's, with each route's variables and loopback spared by proxies.

    The first route of a protocol gets the protocol's variables; every route gets ``DOCKET_UPSTREAM_<NAME>``.
    """
    child = dict(environ)
    child["DOCKET_RUN"] = docket
    taken: set[str] = set()
    for route in routes:
        child[f"DOCKET_UPSTREAM_{_shell_name(route.name)}"] = route.base_url
        family = BY_NAME[route.protocol]
        for variable in family.variables:
            if variable not in taken:
                taken.add(variable)
                child[variable] = family.value(variable, route.base_url)
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


def _shell_name(name: str) -> str:
    return "".join(character if character.isalnum() else "_" for character in name).upper()
