"""One run from the operator's call to the sealed receipt: prepare, run, stop, reap, seal.

Invariants: the guardian starts before docket has a thread; the first checkpoint is durable before the agent starts; no
receipt is written while a descendant may live (those that SIGKILL does not end are named); every reason to stop is
recorded before it is acted on, or the record itself is the reason.
"""

from __future__ import annotations

import asyncio
import gc
import os
from contextlib import suppress
from typing import cast

from docket.boundary.call.desk import UnderWay
from docket.errors import LedgerError, LedgerWriteError, ProcessError
from docket.ledger.events import CapExceeded, Event, Note, ProcExit, ProcOrphan, ProcSpawn
from docket.policy.document import document
from docket.primitives.canonical import JsonObject
from docket.primitives.instant import timestamp
from docket.process.outcome import ExecFailed
from docket.process.signals import SignalRelay
from docket.process.supervision import Guardian
from docket.receipt.model import Run
from docket.storage.guard import Ceilings, WriteFailure
from docket.storage.keys import hide_memory, new_run_key
from docket.storage.paths import RECEIPT, RunDirectory, docket_number
from docket.storage.reader import read_ledger
from docket.storage.writer import LedgerWriter
from docket.supervisor.agent_setup import Adapted
from docket.supervisor.announce import Announcer
from docket.supervisor.assembly import Assembly
from docket.supervisor.files import RunFiles
from docket.supervisor.ledger_history import Past, Session
from docket.supervisor.lifecycle import EXIT_DOCKET_FAILED, Ending, Phase, Stop, exit_status, outcome
from docket.supervisor.ports import Ports
from docket.supervisor.preparation import Preparation, prepare
from docket.supervisor.recorder import RunRecorder
from docket.supervisor.request import RunRequest
from docket.supervisor.resumption import TakenUp, take_up
from docket.supervisor.run_report import enforcement, limits, tell
from docket.supervisor.run_stop import Stopping
from docket.supervisor.seal import TOOL, Keys, seal
from docket.supervisor.secrets import Secrets
from docket.supervisor.session_events import Opening
from docket.supervisor.wall_time import WallTime

COLLECT_AFTER = 20_000
"""Objects between two looks for cycles: calls leave none, and the default of 700 costs some 4 % of each."""
DRAIN_SECONDS = 2.0
"""How long calls under way may go on once nobody is left to read their answers."""


def run(request: RunRequest, ports: Ports | None = None) -> int:
    """Supervise one run; gives docket's exit status. Raises DocketError where nothing was started."""
    ports = ports or Ports()
    preparation = prepare(request, ports.clock)
    taken_up = None
    if request.resume is not None:
        policy = preparation.request.policy
        taken_up = take_up(request.resume, policy, preparation.operator, ports.clock, ports.disk)
    guardian = Guardian.start()
    hidden = hide_memory()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)
    keys = Keys(run=new_run_key(), operator=preparation.operator)
    return asyncio.run(_Run(preparation, guardian, keys, ports, taken_up, hidden=hidden).main())


class _Run:
    """The state of one run."""

    def __init__(
        self,
        preparation: Preparation,
        guardian: Guardian,
        keys: Keys,
        ports: Ports,
        taken_up: TakenUp | None,
        *,
        hidden: bool,
    ) -> None:
        request = preparation.request
        self._preparation = preparation
        self._request = request
        self._guardian = guardian
        self._keys = keys
        self._ports = ports
        self._hidden = hidden
        self._announcer = Announcer(quiet=request.quiet)
        self._under_way = UnderWay()
        self._stopping = Stopping(request.policy, guardian, self._announcer, self._under_way.cut)
        self._taken_up = taken_up
        self._past = taken_up.past if taken_up is not None else Past()
        self._totals = self._past.totals
        self._opening = Opening(
            docket=taken_up.run.name if taken_up else docket_number(ports.clock.unix_us(), os.urandom),
            request=request,
            secrets=Secrets(request.environ),
            policy=document(request.policy, os.urandom),
            prices=preparation.prices,
        )
        self._exit: JsonObject = {}
        self._guardian_lost = False
        self._may_live = False

    async def main(self) -> int:
        """The whole life of the run; gives docket's exit status."""
        directory = (
            self._taken_up.run
            if self._taken_up is not None
            else RunDirectory.create(self._request.docket_dir, self._opening.docket, self._ports.disk)
        )
        try:
            self._files = RunFiles(self._request, directory, self._announcer, self._ports.clock)
            try:
                self._files_before = await self._files.before()
                used_us = self._totals.activity.elapsed_us
                self._wall_time = WallTime(self._request.policy.caps, self._ports.clock, used_us=used_us)
                return await self._opened(directory)
            finally:
                self._files.close()
        finally:
            directory.close()
            await self._guardian.close()

    async def _opened(self, directory: RunDirectory) -> int:
        writer = self._writer(directory)
        try:
            return await self._recorded(directory, writer)
        finally:
            await writer.close()

    def _writer(self, directory: RunDirectory) -> LedgerWriter:
        resilience, taken = self._request.policy.resilience, self._taken_up
        mode = cast(WriteFailure, resilience.write_failure)
        ceilings = Ceilings(max_bytes=resilience.max_ledger_bytes, max_events=resilience.max_events)
        key, clock = self._keys.run, self._ports.clock
        if taken is None:
            return LedgerWriter.create(directory, key=key, clock=clock, on_write_failure=mode, ceilings=ceilings)
        return LedgerWriter.resume(
            directory, taken.lock, taken.past.read, key=key, clock=clock, on_write_failure=mode, ceilings=ceilings
        )

    async def _recorded(self, directory: RunDirectory, writer: LedgerWriter) -> int:
        self._recorder = RunRecorder(writer, self._stopping.evidence_broke, self._stopping.evidence_lost)
        status = EXIT_DOCKET_FAILED
        try:
            async with asyncio.TaskGroup() as tasks:
                self._parts = Assembly(
                    self._preparation,
                    docket=self._opening.docket,
                    ports=self._ports,
                    directory=directory,
                    writer=writer,
                    taken_up=self._taken_up,
                    recorder=self._recorder,
                    under_way=self._under_way,
                    tasks=tasks,
                    on_breach=self._stopping.breached,
                    on_fatal=self._stopping.fault,
                )
                writer.observe(self._totals.add)
                if self._taken_up is not None:
                    read_ledger(directory, self._parts.watching.observe)
                writer.observe(self._parts.watching.observe)
                writer.observe_syncs(self._parts.watching.observe_sync)
                writer.when_full(self._stopping.full)
                await self._parts.boundary.start(self._preparation.listener)
                await self._parts.watching.start(self._preparation.health_listener)
                try:
                    status = await self._supervised(directory, writer, tasks)
                finally:
                    await self._parts.boundary.close()
                    if (problem := await self._parts.watching.close()) is not None:
                        self._announcer.problem(problem)
        except* (LedgerError, ProcessError) as group:
            self._announcer.problem(f"{group.exceptions[0]}; no receipt, the ledger in {directory.path} ends there")
        return status

    async def _supervised(self, directory: RunDirectory, writer: LedgerWriter, tasks: asyncio.TaskGroup) -> int:
        boundary, grace = self._parts.boundary, self._stopping.grace_seconds
        adapted = self._opening.adapted(boundary)
        await self._begin(writer, adapted)
        with SignalRelay(self._guardian, grace_seconds=grace, on_ending=self._stopping.asked):
            watches = [
                tasks.create_task(self._wall_time.watch(self._recorder, self._announcer, self._time_is_up)),
                tasks.create_task(self._parts.watching.watch()),
            ]
            try:
                await self._agent(adapted)
                boundary.end_run()
                await self._reap()
                await boundary.drain(DRAIN_SECONDS)
                await boundary.close()
                await self._look_at_files()
            finally:
                for watch in watches:
                    watch.cancel()
                adapted.tidy()
            return await self._sealed(directory, writer)

    async def _begin(self, writer: LedgerWriter, adapted: Adapted) -> None:
        """Record who runs what, durably, and say so."""
        continues = self._taken_up.continues if self._taken_up is not None else None
        opening = self._opening
        start = await writer.append_watched(
            opening.start(adapted, self._keys, session=len(self._past.sessions), continues=continues)
        )
        if start is None:
            raise LedgerWriteError("the start of the run could not be written")
        self._past.sessions.append(Session(start))
        await self._recorder.append(opening.policy_applied())
        if self._taken_up is not None and self._taken_up.torn is not None:
            await self._recorder.append(self._taken_up.torn)
        await self._recorder.append(self._files_before)
        if self._ports.begin is not None:
            self._ports.begin(self._recorder.submit)
        await writer.checkpoint()
        self._announcer.run_key(opening.docket, self._keys.run.public)
        if adapted.said is not None:
            self._announcer.remark(adapted.said)
        for problem in adapted.problems:
            self._announcer.problem(problem)

    # ── the agent ──

    async def _agent(self, adapted: Adapted) -> None:
        """Run the agent and learn how it ended."""
        spawned = await self._guardian.spawn(adapted.argv, adapted.environment, str(self._request.cwd))
        if isinstance(spawned, ExecFailed):
            reason = self._opening.secrets.redact(spawned.reason)
            self._announcer.problem(reason)
            self._exit = {"code": spawned.status}
            await self._recorder.append(ProcExit(code=spawned.status, private={"reason": reason}))
            return
        self._enter(Phase.RUNNING)
        self._note(ProcSpawn(pid=spawned.pid, private={"argv": self._opening.identity["argv"]}))
        status = await self._guardian.exited()
        self._enter(Phase.STOPPING)
        self._exit = {"code": status.code} if status.code is not None else {"signal": cast(int, status.signal)}
        self._note(ProcExit(code=status.code, signal=status.signal, core_dumped=status.core_dumped or None))

    async def _reap(self) -> None:
        """Have everything that the agent started ended; what outlived it is recorded."""
        if self._parts.watching.phase is Phase.PREPARED:
            return
        reaped = await self._guardian.reap(self._stopping.grace_seconds)
        self._enter(Phase.REAPED)
        self._guardian_lost = reaped.guardian_lost
        self._may_live = reaped.guardian_lost or bool(reaped.survivors)
        for orphan in reaped.orphans:
            command = self._opening.secrets.redact(orphan.command)
            self._note(ProcOrphan(pid=orphan.pid, ended=orphan.ended, private={"command": command}))
        if reaped.unnamed:
            self._note(Note(private={"text": f"{reaped.unnamed} further processes outlived the agent"}))
        for survivor in reaped.survivors:
            self._announcer.problem(f"process {survivor.pid} did not end within 10 s of SIGKILL")

    async def _look_at_files(self) -> None:
        """Record what changed in the files; a record that is broken says so when the run is sealed."""
        if self._recorder.broken is None:
            with suppress(LedgerError):
                breached = self._totals.activity.breach is not None
                await self._files.after(self._recorder.submit, breached=breached, alive=self._may_live)

    def _time_is_up(self, breach: CapExceeded) -> None:
        self._parts.admission.breach(breach)
        self._stopping.breached(breach)

    def _enter(self, phase: Phase) -> None:
        self._parts.watching.phase = phase

    def _note(self, event: Event) -> None:
        """Record ``event``; a record that is broken has stopped the run already."""
        with suppress(LedgerError):
            self._recorder.submit(event)

    # ── after the last process ──

    async def _sealed(self, directory: RunDirectory, writer: LedgerWriter) -> int:
        if self._recorder.broken is not None:
            raise self._recorder.broken
        ending = self._ending()
        run = self._receipt(ending)
        position = await seal(directory, writer, self._totals, run, self._keys, self._past.starts, os.urandom)
        self._enter(Phase.SEALED)
        tell(self._opening, run, self._totals, position, directory.path / RECEIPT, self._announcer)
        return exit_status(ending)

    def _ending(self) -> Ending:
        return Ending(
            code=cast("int | None", self._exit.get("code")),
            signal=cast("int | None", self._exit.get("signal")),
            stop=Stop.GUARDIAN_LOST if self._guardian_lost else self._stopping.reason,
            breached=self._totals.activity.breach is not None,
        )

    def _receipt(self, ending: Ending) -> Run:
        said = [*limits(self._totals, hidden=self._hidden), *self._files.limits]
        if self._taken_up is not None:
            said += self._taken_up.limits
        return Run(
            docket=self._opening.docket,
            created_at=timestamp(self._ports.clock.unix_us()),
            tool=TOOL,
            outcome=outcome(ending),
            exit=self._exit,
            policy=self._opening.policy,
            tables=(*self._past.tables, self._opening.price_table),
            caps=self._parts.caps(self._request.policy),
            cache=self._parts.cache(),
            enforcement=enforcement(hidden=self._hidden),
            private=self._opening.identity,
            limits=tuple(said),
        )
