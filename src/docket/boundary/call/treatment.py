"""What becomes of a request by the class of its endpoint: a model call, a passthrough, or a refusal.

The classes are the providers' own knowledge (`providers.registry`); this module owns what follows from them. Invariant:
nothing that may be billed passes uncounted, and under a USD cap nothing that the cap cannot see passes at all.
"""

from __future__ import annotations

from enum import StrEnum

from docket.control.decision import Refused
from docket.providers.call import EndpointClass


class Treatment(StrEnum):
    """How a request is carried."""

    METER = "meter"
    """A model call whose answer is observed."""
    COUNT = "count"
    """A model call with usage ``none``: it may cost something that docket cannot read."""
    PASS_THROUGH = "pass-through"
    """No model call; recorded as ``x-docket.forwarded``."""


def needs_body(kind: EndpointClass, method: bytes) -> bool:
    """Whether the body must be read whole before anything is decided."""
    return method == b"POST" and kind is not EndpointClass.FREE


def treat(
    kind: EndpointClass, method: bytes, *, names_model: bool, usd_cap: bool, forward_unmetered: bool
) -> Treatment | Refused:
    """The treatment of a request; ``names_model`` says whether its JSON body has a member ``model``.

    Only a POST is billed: on every endpoint here GET, HEAD, DELETE and OPTIONS read, list or remove.
    """
    if kind is EndpointClass.FREE or method != b"POST":
        return Treatment.PASS_THROUGH
    if kind is EndpointClass.METERED:
        return Treatment.METER
    if usd_cap and not forward_unmetered and (kind is EndpointClass.UNMETERED or names_model):
        return Refused(
            code="unmetered_endpoint",
            message="this endpoint is billed by a figure that docket cannot read, so the USD cap cannot hold it",
        )
    return Treatment.COUNT
