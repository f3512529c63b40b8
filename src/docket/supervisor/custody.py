"""How far the providers' keys of a run are kept from its agent, as a trial at the start has shown.

Invariant: ``held`` is said only where nothing that was looked at shows a key: not the agent's variables and arguments,
not what ``/proc`` shows of any process. What cannot be prevented is a sentence of the receipt.
"""

from __future__ import annotations

from dataclasses import dataclass

from docket.supervisor.key_sources import Found, shown_in

NOT_ASKED = "not prevented: the agent holds the keys that it was started with"
COPIES = (
    "The agent could read providers' keys where docket read them, or in the memory or environment of another process: "
    "a call with such a key that goes around the boundary is not shown."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Custody:
    """What is said of the keys."""

    mechanism: str
    """The value of ``enforcement.mechanisms.keys``."""
    limits: tuple[str, ...] = ()
    """Sentences of the receipt; they hold no path."""
    remarks: tuple[str, ...] = ()
    """Sentences for the operator."""

    @classmethod
    def of(cls, found: Found | None, *, hidden: bool) -> Custody:
        """Look where the keys of ``found`` can be read, before the agent starts; ``hidden``: not in docket's memory."""
        if found is None:
            return cls(mechanism=NOT_ASKED)
        names = ", ".join(sorted(found.keys))
        shown = shown_in(found)
        if not hidden:
            shown.append("docket's memory")
        readable = [*found.readable, *shown]
        remarks = tuple(f"--hold-keys: the agent could read a key all the same: {place}" for place in readable)
        said = f"{names} held by docket, the agent has the run's token"
        if readable:
            mechanism = f"not prevented: {said}, and could read a key elsewhere"
            return cls(mechanism=mechanism, limits=(COPIES,), remarks=remarks)
        return cls(mechanism=f"held: {said}")
