"""Which faults a drill injects: the specification people write, and the seeded decision per request. Pure.

The vocabulary is toxiproxy's for the network, the provider's for its answers, and the ports' own for disk and clock.
Invariant: what request *n* suffers depends on the seed, *n* and the specification alone, never on timing.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from docket.errors import UsageError

Unit = Literal["us", "bytes", "bytes_per_second", "status", "operations", "none"]
Port = Literal["upstream", "disk", "clock"]

MAX_FAULTS = 32
"""Faults of one specification: written by hand."""
MAX_US = 3_600_000_000
"""No fault lasts longer than an hour."""
MAX_BYTES = 2**40


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultKind:
    """One word of the vocabulary: where it enters, what its magnitude is, and what it does."""

    port: Port
    unit: Unit
    default: int
    does: str


KINDS: Mapping[str, FaultKind] = {
    "latency": FaultKind(port="upstream", unit="us", default=100_000, does="the answer begins later by this"),
    "jitter": FaultKind(port="upstream", unit="us", default=50_000, does="the answer begins later by up to this"),
    "bandwidth": FaultKind(port="upstream", unit="bytes_per_second", default=65_536, does="the body flows this fast"),
    "slow_close": FaultKind(port="upstream", unit="us", default=500_000, does="the end of the answer comes later"),
    "timeout": FaultKind(port="upstream", unit="us", default=1_000_000, does="silence for this long, then no answer"),
    "reset_peer": FaultKind(port="upstream", unit="us", default=0, does="the connection is reset after this"),
    "slicer": FaultKind(port="upstream", unit="bytes", default=16, does="the body comes in pieces of this size"),
    "limit_data": FaultKind(port="upstream", unit="bytes", default=64, does="the connection ends after so many bytes"),
    "status": FaultKind(port="upstream", unit="status", default=503, does="the provider answers with this status"),
    "error_event": FaultKind(port="upstream", unit="none", default=0, does="a 200 stream holds an error event"),
    "drop": FaultKind(port="upstream", unit="none", default=0, does="the request gets no answer at all"),
    "corrupt": FaultKind(port="upstream", unit="none", default=0, does="one byte of the body is changed"),
    "duplicate": FaultKind(port="upstream", unit="none", default=0, does="the first piece of the body comes twice"),
    "enospc": FaultKind(port="disk", unit="bytes", default=262_144, does="the run's volume has this much room in all"),
    "eio": FaultKind(port="disk", unit="none", default=0, does="a sync fails"),
    "enospc_at": FaultKind(port="disk", unit="operations", default=50, does="this one operation finds no room"),
    "eio_at": FaultKind(port="disk", unit="operations", default=50, does="this one operation fails"),
    "readonly": FaultKind(port="disk", unit="operations", default=100, does="the volume is read-only after so many"),
    "vanish": FaultKind(port="disk", unit="operations", default=100, does="the volume is gone after so many"),
    "slow_sync": FaultKind(port="disk", unit="us", default=5_000, does="a sync takes this much longer"),
    "lying_sync": FaultKind(port="disk", unit="none", default=0, does="a sync returns without having synced"),
    "clock_step": FaultKind(port="clock", unit="us", default=3_600_000_000, does="the wall clock steps after 1 s"),
    "clock_freeze": FaultKind(port="clock", unit="us", default=1_000_000, does="the wall clock stops after this"),
}
_SIZES = {"": 1, "B": 1, "KB": 1000, "KiB": 1024, "MB": 10**6, "MiB": 2**20}
_TIMES = {"us": 1, "ms": 1000, "s": 1_000_000, "min": 60_000_000}
_PART = re.compile(r"([a-z_]+)(?:=(-?[0-9]+)([A-Za-z]*))?(?:@([01]|0?\.[0-9]{1,6}|1\.0+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault of a drill: with ``millionths`` / 1,000,000 probability, and its magnitude in the kind's unit."""

    name: str
    magnitude: int
    millionths: int = 1_000_000

    @property
    def port(self) -> Port:
        return KINDS[self.name].port


@dataclass(frozen=True, slots=True)
class Draw:
    """A fault that a request suffers; ``roll`` is a further random number in [0, 1) for its details."""

    fault: Fault
    roll: float


class Plan:
    """A specification and a seed."""

    def __init__(self, faults: tuple[Fault, ...], seed: int) -> None:
        self.faults = faults
        self.seed = seed

    def of(self, port: Port) -> tuple[Fault, ...]:
        """The faults that enter at ``port``."""
        return tuple(fault for fault in self.faults if fault.port == port)

    def draw(self, port: Port, number: int) -> tuple[Draw, ...]:
        """What the ``number``-th request (or sync) at ``port`` suffers, in order of the specification."""
        drawn = []
        for place, fault in enumerate(self.faults):
            source = random.Random(f"{self.seed}/{place}/{fault.name}/{number}")
            chance, roll = source.random(), source.random()
            if fault.port == port and chance * 1_000_000 < fault.millionths:
                drawn.append(Draw(fault, roll))
        return tuple(drawn)


def parse(text: str) -> tuple[Fault, ...]:
    """The faults that ``NAME[=MAGNITUDE][@PROBABILITY],...`` states. Raises UsageError naming the part."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or len(parts) > MAX_FAULTS:
        raise UsageError(f"--faults names {len(parts)} faults; give 1 to {MAX_FAULTS}", hint=vocabulary())
    return tuple(_fault(part) for part in parts)


def vocabulary() -> str:
    """Every word with its default and what it does, for ``--help`` and errors."""
    lines = [f"  {name:<13}{spell(name, kind.default):<12}{kind.does}" for name, kind in KINDS.items()]
    return "NAME[=MAGNITUDE][@PROBABILITY], separated by commas; NAME is one of:\n" + "\n".join(lines)


def spell(name: str, magnitude: int) -> str:
    """``magnitude`` of the fault ``name`` as people write it."""
    match KINDS[name].unit:
        case "us":
            return f"{magnitude // 1_000_000}s" if magnitude % 1_000_000 == 0 else f"{magnitude // 1000}ms"
        case "bytes" | "bytes_per_second":
            return f"{magnitude}B"
        case "status" | "operations":
            return str(magnitude)
        case "none":
            return ""


def _fault(part: str) -> Fault:
    match = _PART.fullmatch(part)
    if match is None or match[1] not in KINDS:
        raise UsageError(f"--faults: {part!r} is no fault", hint=vocabulary())
    name, number, unit, chance = match.groups()
    magnitude = KINDS[name].default if number is None else _magnitude(name, int(number), unit, part)
    millionths = round(float(chance) * 1_000_000) if chance else 1_000_000
    return Fault(name=name, magnitude=magnitude, millionths=millionths)


def _magnitude(name: str, number: int, unit: str, part: str) -> int:
    kind = KINDS[name]
    units = {
        "us": _TIMES,
        "bytes": _SIZES,
        "bytes_per_second": _SIZES,
        "status": {"": 1},
        "operations": {"": 1},
        "none": {},
    }[kind.unit]
    least, most = {"us": (0, MAX_US), "status": (400, 599)}.get(kind.unit, (1, MAX_BYTES))
    if name == "clock_step":
        least = -MAX_US
    value = number * units[unit] if unit in units else None
    if value is None or not least <= value <= most:
        known = ", ".join(word or "no unit" for word in units) or "no magnitude"
        raise UsageError(f"--faults: the magnitude of {part!r} is not accepted", hint=f"{name} takes {known}")
    return value
