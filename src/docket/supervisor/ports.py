"""Where a run meets the world: its clock, its disk and its way upstream. Real ones by default; drills replace them.

Invariant: a fault enters a run here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from docket.boundary.build import Around
from docket.clock import Clock, SystemClock
from docket.ledger.events import FaultInjected
from docket.storage.durable import Disk, SystemDisk

Disclose: TypeAlias = Callable[[FaultInjected], object]
"""Takes an injected fault for the ledger, on the event loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The ports of one run."""

    clock: Clock = field(default_factory=SystemClock)
    disk: Disk = field(default_factory=SystemDisk)
    around: Around | None = None
    """Put between the run and its upstreams."""
    begin: Callable[[Disclose], None] | None = None
    """Called once the session has begun: from now on faults can be disclosed."""
