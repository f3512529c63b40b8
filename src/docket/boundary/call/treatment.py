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


_WAY_OUT = 'forward such requests, uncounted by the cap, with unmetered = "forward" for this upstream'


def needs_body(kind: EndpointClass) -> bool:
    """Whether the body must be read whole before anything is decided."""
    return kind is not EndpointClass.FREE


def treat(kind: EndpointClass, *, usd_cap: bool, forward_unmetered: bool) -> Treatment | Refused:
    """The treatment of a request to an endpoint of this class."""
    if kind is EndpointClass.FREE:
        return Treatment.PASS_THROUGH
    if kind is EndpointClass.METERED:
        return Treatment.METER
    if usd_cap and not forward_unmetered:
        if kind is EndpointClass.UNMETERED:
            reason = "this endpoint is billed by a figure that docket cannot read"
        else:
            reason = "docket does not know this endpoint, so it may cost something"
        return Refused(
            code="unmetered_endpoint" if kind is EndpointClass.UNMETERED else "unknown_endpoint",
            message=f"{reason}, and the cap max_usd cannot hold it; {_WAY_OUT}",
        )
    return Treatment.COUNT
