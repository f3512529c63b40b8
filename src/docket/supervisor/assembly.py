"""What a run is made of: the gate, the boundary and whatever watches, built from the policy.

Invariant: everything here is built from values; nothing is started, and nothing decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from docket.boundary.build import build
from docket.boundary.call.admission import QueuedAdmission
from docket.boundary.call.caching import AnswerCache
from docket.boundary.call.desk import Desk, UnderWay
from docket.control.admission import Gate
from docket.control.response_cache import ResponseCache
from docket.ledger.events import CapExceeded
from docket.policy.model import Policy
from docket.primitives.canonical import JsonObject
from docket.receipt.model import Caps
from docket.storage.blobs import Blobs
from docket.storage.paths import RunDirectory
from docket.storage.writer import LedgerWriter
from docket.supervisor.ports import Ports
from docket.supervisor.preparation import Preparation
from docket.supervisor.recorder import RunRecorder
from docket.supervisor.resumption import TakenUp
from docket.supervisor.run_observers import Watching


class Assembly:
    """The parts of one run, wired to its record."""

    def __init__(
        self,
        preparation: Preparation,
        *,
        docket: str,
        ports: Ports,
        directory: RunDirectory,
        writer: LedgerWriter,
        taken_up: TakenUp | None,
        recorder: RunRecorder,
        under_way: UnderWay,
        tasks: asyncio.TaskGroup,
        on_breach: Callable[[CapExceeded], None],
        on_fatal: Callable[[Exception], None],
        on_crowd: Callable[[str], None],
    ) -> None:
        """``tasks`` owns what the boundary starts; ``on_breach``, ``on_fatal`` and ``on_crowd`` are its own, and the
        answers that it has ``under_way`` can be cut.
        """
        policy, clock = preparation.request.policy, ports.clock
        first_call = taken_up.past.rebooking.last_call + 1 if taken_up is not None else 1
        self.gate = Gate(policy, preparation.prices, first_call=first_call)
        if taken_up is not None:
            taken_up.rebook(self.gate.budget)
        self.admission = QueuedAdmission(self.gate, clock)
        self.watching = Watching(
            docket=docket,
            policy=policy,
            clock=clock,
            accounts=self.gate,
            ledger=writer,
            met=lambda: recorder.met,
            record=recorder.submit,
            known_models=preparation.prices.names(),
        )
        self._cache: AnswerCache | None = ResponseCache(policy.cache) if policy.cache.enabled else None
        desk = Desk.of(
            number=docket,
            admission=self.admission,
            recorder=recorder,
            clock=clock,
            on_breach=on_breach,
            blobs=Blobs(directory, policy.resilience.max_blob_bytes) if _records_bodies(policy) else None,
            under_way=under_way,
        )
        self.boundary = build(
            desk,
            preparation.settings,
            tasks,
            on_fatal=on_fatal,
            on_crowd=on_crowd,
            health=self.watching.health,
            budget=self.gate.left,
            asserted=taken_up.past.asserted if taken_up is not None else None,
            endurance=policy.endurance,
            around=ports.around,
            cache=(self._cache, self.gate) if self._cache is not None else None,
        )

    def cache(self) -> JsonObject | None:
        """What the receipt says of the response cache beside the hits that the ledger holds; None where it is off."""
        if self._cache is None:
            return None
        keys = self._cache.policy
        policy: JsonObject = {"ttl_seconds": str(keys.ttl_seconds), "max_entries": keys.max_entries}
        if keys.max_hits is not None:
            policy["max_hits"] = keys.max_hits
        return {"policy": policy, "saved_usd": str(self._cache.saved_usd)}

    def caps(self, policy: Policy) -> Caps:
        """Limits, and what was booked against them."""
        return Caps(
            usd_limit=policy.caps.max_usd if policy.budget.mode == "usd" else None,
            usd_booked=self.gate.budget.booked_usd,
            tokens_limit=policy.caps.max_tokens,
            tokens_booked=self.gate.budget.booked_tokens,
            calls_limit=policy.caps.max_model_calls,
            wall_limit_us=policy.caps.max_wall_seconds.us if policy.caps.max_wall_seconds is not None else None,
        )


def _records_bodies(policy: Policy) -> bool:
    return policy.evidence.record_requests or policy.evidence.record_responses
