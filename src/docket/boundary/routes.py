"""Addresses: which run and which upstream a request target names, and what target goes on.

Invariant: below ``/r/<token>/NAME`` the target reaches the upstream byte for byte; the token is compared in constant
time and never leaves this side.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass

from docket.boundary.http1.origin import Origin, parse_base_url
from docket.families import BY_NAME
from docket.primitives.frozen import value

OWN = "docket"
"""The name under which docket itself is reached: no upstream may have it."""
TOKEN_BYTES = 24
"""Random bytes of a run's token: unguessable, and short enough for every client's base URL."""
_NAME = re.compile(rb"[^/?]+")
_ABSOLUTE = re.compile(rb"https?://[^/?#]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """An upstream of the run: ``family`` is its ``protocol`` in the policy, ``provider`` whose prices it has."""

    name: str
    origin: Origin
    base_path: str
    family: str
    provider: str
    forward_unmetered: bool = False
    models: Mapping[str, str] | None = None
    """As in ``Sent``."""
    deployments: bool = False
    """As in ``Sent``."""

    @classmethod
    def of(
        cls,
        name: str,
        base_url: str,
        *,
        family: str,
        provider: str,
        forward_unmetered: bool = False,
        models: Mapping[str, str] | None = None,
    ) -> Route:
        """The route to ``base_url``, which is what the agent's own variable would hold. Raises UsageError."""
        origin, path = parse_base_url(base_url)
        return cls(
            name=name,
            origin=origin,
            base_path=path,
            family=family,
            provider=provider,
            forward_unmetered=forward_unmetered,
            models=models,
            deployments=BY_NAME[family].deployments,
        )


@value
class Address:
    """A target that carries the run's token: the name after it, and the target that is left, in origin form."""

    name: str
    rest: bytes


def address(target: bytes, token: bytes) -> Address | None:
    """What ``target`` names, or None where it does not carry ``token``."""
    path = origin_form(target)
    if not path.startswith(b"/r/"):
        return None
    given, _, rest = path[3:].partition(b"/")
    if not hmac.compare_digest(given, token):
        return None
    name = _NAME.match(rest)
    left = rest[name.end() :] if name else rest
    named = rest[: len(rest) - len(left)].decode("ascii", "replace")
    return Address(named, left if left[:1] == b"/" else b"/" + left)


def origin_form(target: bytes) -> bytes:
    """``target`` without scheme and authority (RFC 9112 section 3.2.2)."""
    match = None if target.startswith(b"/") else _ABSOLUTE.match(target)
    return target if match is None else target[match.end() :]
