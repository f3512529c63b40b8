"""Looks at a run from the side: clock steps, free space, health and metrics. Never on the way of a call.

Owns the second listener and the metrics file. Invariant: what is served is read from the run at that moment; nothing
here decides about a call or stops a run.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from docket.boundary.health import Health
from docket.clock import Clock
from docket.control.clock_watch import LOOK_EVERY_SECONDS, ClockWatch
from docket.control.readiness import BreakerName, CapUse, Status
from docket.errors import LedgerError
from docket.ledger.chain import Entry
from docket.ledger.events import CapExceeded, ClockStep
from docket.policy.model import Policy
from docket.primitives.money import Usd
from docket.supervisor.lifecycle import Phase
from docket.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from docket.boundary.health_listener import HealthListener


class Accounts(Protocol):
    """What the gate knows at this moment."""

    def cap_use(self) -> Mapping[str, CapUse]: ...

    def breaker_states(self) -> Mapping[str, BreakerName]: ...

    @property
    def inflight(self) -> int: ...

    @property
    def reserved_usd(self) -> Usd: ...


class Ledger(Protocol):
    """What the writer knows at this moment."""

    @property
    def size(self) -> int: ...

    @property
    def used_bytes(self) -> int: ...

    @property
    def writable(self) -> bool: ...

    @property
    def unwritten(self) -> int: ...

    @property
    def intact(self) -> bool: ...

    def free_bytes(self) -> int | None: ...


class Watching:
    """One run's observer."""

    def __init__(
        self,
        *,
        docket: str,
        policy: Policy,
        clock: Clock,
        accounts: Accounts,
        ledger: Ledger,
        met: Callable[[], CapExceeded | None],
        record: Callable[[ClockStep], object],
        known_models: Iterable[str],
    ) -> None:
        """``met`` gives the ceiling that the ledger has met; ``record`` takes a clock step for the ledger.

        ``known_models`` keep their own label in the metrics.
        """
        self._phase = Phase.PREPARED
        self.listening = False
        self._docket = docket
        self._policy = policy
        self._clock = clock
        self._accounts = accounts
        self._ledger = ledger
        self._met = met
        self._record = record
        self._metrics = Metrics(self.status, known_models)
        self._started_us = clock.monotonic_us()
        self._steps = ClockWatch(clock.unix_us(), clock.monotonic_us())
        self._listener: HealthListener | None = None
        self.health = Health(self.status, self._metrics.render)

    def status(self) -> Status:
        """The run at this moment."""
        return Status(
            docket=self._docket,
            phase=str(self._phase),
            listening=self.listening,
            ledger_writable=self._ledger.writable,
            ledger_events=self._ledger.size,
            unwritten_events=self._ledger.unwritten,
            ledger_intact=self._ledger.intact,
            free_bytes=self._ledger.free_bytes(),
            min_free_bytes=self._policy.resilience.min_free_bytes,
            caps={**self._accounts.cap_use(), **self._own_caps()},
            breakers=self._accounts.breaker_states(),
            inflight=self._accounts.inflight,
            reserved_usd=self._accounts.reserved_usd,
        )

    def _own_caps(self) -> dict[str, CapUse]:
        """Caps that no call is booked against: wall time and the ceilings of the ledger."""
        caps, keys = self._policy.caps, self._policy.resilience
        elapsed_us = self._clock.monotonic_us() - self._started_us
        wall_us = caps.max_wall_seconds.us if caps.max_wall_seconds is not None else None
        used = {
            "max_wall_seconds": (wall_us, elapsed_us, 1_000_000),
            "max_ledger_bytes": (keys.max_ledger_bytes, self._ledger.used_bytes, 1),
            "max_events": (keys.max_events, self._ledger.size, 1),
        }
        breach = self._met()
        met = breach.cap if breach is not None else None
        return {
            name: CapUse(limit=Decimal(limit) / per, booked=Decimal(limit if name == met else booked) / per)
            for name, (limit, booked, per) in used.items()
            if limit is not None
        }

    def enter(self, phase: Phase) -> None:
        """The run is in another phase now."""
        self._phase = phase

    def observe(self, entry: Entry) -> None:
        """Take a durable entry; an observer of the writer."""
        self._metrics.observe(entry)

    def observe_sync(self, duration_us: int) -> None:
        """Take the time of one sync of the ledger, in microseconds."""
        self._metrics.observe_sync(duration_us)

    async def start(self, listener: socket.socket | None) -> int | None:
        """The boundary listens: serve on the second listener where there is one; gives its port."""
        self.listening = True
        if listener is None:
            return None
        from docket.boundary.health_listener import HealthListener  # aiohttp costs a quarter of a second

        name = (self._policy.health.listen or "").rpartition(":")[0]
        self._listener = HealthListener(self.health, name)
        return await self._listener.start(listener)

    async def watch(self) -> None:
        """Look at the clock every second until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY_SECONDS)
            self.look()

    def look(self) -> None:
        """Record a step of the wall clock since the last look, if there was one."""
        step = self._steps.look(self._clock.unix_us(), self._clock.monotonic_us())
        if step is not None:
            with suppress(LedgerError):  # a ledger that takes nothing more says so itself
                self._record(step)

    async def close(self) -> str | None:
        """Close the second listener and leave the last metrics where the policy wants them; what went wrong, if so."""
        if self._listener is not None:
            await self._listener.close()
        if self._policy.health.metrics_file is None:
            return None
        try:
            self._leave(Path(self._policy.health.metrics_file))
        except OSError as error:
            return f"--metrics-file: cannot write {self._policy.health.metrics_file}: {error.strerror}"
        return None

    def _leave(self, path: Path) -> None:
        """Replace ``path`` at once, so that a collector never reads half a file."""
        part = path.with_name(f".{path.name}.{os.getpid()}")
        part.unlink(missing_ok=True)  # an agent knows the name too
        with part.open("xb") as file:
            file.write(self._metrics.render(None)[1])
        part.replace(path)
