"""Which Host fields a listener answers to, so that a web page cannot read it by rebinding a name of its own to it.

A browser sends the name that its page came from. An address is no name that could be rebound, and a name of one label
is none that the public can own; any other name must be the one that the operator gave.
"""

from __future__ import annotations

import ipaddress
import re
from contextlib import suppress

_HOST = re.compile(r"(?:\[(?P<six>[^\]]*)\]|(?P<name>[^:\[\]]*))(?::[0-9]{1,5})?")


def answers_to(field: str | None, given: str = "") -> bool:
    """Return whether a request with the Host ``field`` (None where it has none) is for a listener named ``given``.

    Source: RFC 9110 section 7.2 for the field's form.
    """
    if not field:
        return True  # HTTP/1.0: no browser
    parts = _HOST.fullmatch(field)
    if parts is None:
        return False
    with suppress(ValueError):
        ipaddress.ip_address(parts["six"] if parts["six"] is not None else parts["name"])
        return True
    name = (parts["name"] or "").lower().removesuffix(".")
    return bool(name) and ("." not in name or name.endswith(".localhost") or name == given.lower())
