"""One run from the operator's call to the sealed receipt: prepare, open, run, stop, reap, seal.

Invariants: the guardian starts before docket has a thread; the first checkpoint is durable before the agent starts; no
receipt is written while a descendant may live (those that SIGKILL does not end are named); every reason to stop is
recorded before it is acted on, or the record itself is the reason.
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import replace
from signal import Signals
from typing import TYPE_CHECKING, cast

from docket.boundary.call.desk import UnderWay
from docket.control.evidence import END_ROOM, Ceilings, Guard
from docket.errors import LedgerError, LedgerWriteError, ProcessError
from docket.ledger.chain import Entry
from docket.ledger.events import CapExceeded, Event, FsSnapshot, Note, PolicyViolation, ProcExit, ProcOrphan, ProcSpawn
from docket.policy.document import document
from docket.primitives.canonical import JsonObject, encode
from docket.primitives.instant import timestamp
from docket.process.held import held_back, hold_back
from docket.process.outcome import ExecFailed, Reaped
from docket.process.signals import SignalRelay
from docket.process.supervision import Guardian
from docket.receipt.model import Run
from docket.storage.keys import hide_memory, new_run_key
from docket.storage.lock import Lock
from docket.storage.paths import RunDirectory, docket_number
from docket.storage.reader import read_ledger
from docket.storage.reserve import Reserve, drop
from docket.storage.volume import file_system_of, room_is_promised
from docket.storage.writer import LedgerWriter
from docket.supervisor.agent_setup import Adapted
from docket.supervisor.announce import Announcer
from docket.supervisor.assembly import Assembly
from docket.supervisor.custody import Custody
from docket.supervisor.files import RunFiles
from docket.supervisor.ledger_history import Past, Session
from docket.supervisor.lifecycle import EXIT_DOCKET_FAILED, Ending, Lifecycle, Phase, Stop, exit_status, outcome
from docket.supervisor.loop_complaints import LoopComplaints, raise_descriptor_limit
from docket.supervisor.ports import Ports
from docket.supervisor.preparation import Preparation, prepare
from docket.supervisor.recorder import RunRecorder
from docket.supervisor.request import RunRequest
from docket.supervisor.resumption import TakenUp, take_up
from docket.supervisor.run_report import UNSYNCED, enforcement, limits, tell
from docket.supervisor.run_stop import Stopping
from docket.supervisor.seal import TOOL, Keys, host_name, seal
from docket.supervisor.second_place import places
from docket.supervisor.secrets import Secrets
from docket.supervisor.session_events import Opening
from docket.supervisor.wall_time import WallTime

if TYPE_CHECKING:
    from docket.supervisor.leases import Leases

COLLECT_AFTER = 20_000
"""Objects between two looks for cycles: calls leave none, and the default of 700 costs some 4 % of each."""
NO_PROMISE = (
    "Room for the end of the run was kept on a file system ({}) where room that is given back need not be there again."
)
DRAIN_SECONDS = 2.0
"""How long calls under way may go on once nobody is left to read their answers."""


def run(request: RunRequest, ports: Ports | None = None) -> int:
    """Supervise one run; return docket's exit status. Raises DocketError where nothing was started."""
    with held_back() as mask:
        return run_held(request, mask, ports)


def run_held(request: RunRequest, mask: Iterable[int], ports: Ports | None = None) -> int:
    """As ``run``, where the caller holds the signals of the run back; ``mask`` is the agent's."""
    ports = ports or Ports()
    preparation = prepare(request, ports.clock)
    taken_up = None
    if request.resume is not None:
        policy = preparation.request.policy
        taken_up = take_up(request.resume, policy, preparation.operator, ports.clock, ports.disk)
    guardian = Guardian.start(mask)
    raise_descriptor_limit()  # docket's own: the guardian was started with the caller's, and so is the agent
    hidden = hide_memory()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)
    keys = Keys(run=new_run_key(), operator=preparation.operator)
    return asyncio.run(supervise(_Run(preparation, guardian, keys, ports, taken_up, hidden=hidden)))


async def supervise(run: _Run) -> int:
    """Lead ``run`` through its phases; return docket's exit status. What a phase opened is closed in reverse order."""
    status = EXIT_DOCKET_FAILED  # unless the run comes to its seal
    # A signal goes to any thread that lets it through: only the main one does, which knows when it is too late.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(initializer=hold_back))
    async with AsyncExitStack() as stack:
        await run.prepare(stack)
        await run.open(stack)
        await run.run()
        await run.stop()
        await run.reap()
        status = await run.seal()
    return status


class _Run:
    """One run: every phase sets what the next ones need."""

    _directory: RunDirectory
    _files: RunFiles
    _files_before: FsSnapshot
    _writer: LedgerWriter
    _recorder: RunRecorder
    _parts: Assembly
    _life: Lifecycle
    _adapted: Adapted
    _leases: Leases | None
    _watches: list[asyncio.Task[None]]

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
            secrets=Secrets(request.environ, preparation.found.keys.values() if preparation.found else ()),
            policy=document(request.policy, os.urandom),
            prices=preparation.prices,
            found=preparation.found,
        )
        self._custody = Custody.of(preparation.found, hidden=hidden)
        self._exit: JsonObject = {}
        self._reaped = Reaped(())
        self._over = False
        """Whether the agent and all that it started have ended."""

    # ── prepare: the directory, the files as they are, the ledger ──

    async def prepare(self, stack: AsyncExitStack) -> None:
        """Make or take up the run directory, read the agent's files, open the ledger. Raises DocketError."""
        stack.callback(self._announcer.close)
        stack.push_async_callback(self._guardian.close)
        grace = self._stopping.grace_seconds
        stack.enter_context(SignalRelay(self._guardian, grace_seconds=grace, on_ending=self._asked))
        taken, ports = self._taken_up, self._ports
        self._directory = (
            taken.run
            if taken is not None
            else RunDirectory.create(self._request.docket_dir, self._opening.docket, ports.disk)
        )
        stack.callback(self._directory.close)
        lock = taken.lock if taken is not None else Lock(self._directory)  # held while the files are read
        if not self._directory.names_durable:
            self._announcer.remark(UNSYNCED)
        self._files = RunFiles(self._request, self._directory, self._announcer, ports.clock)
        stack.callback(self._files.close)
        self._files_before = await self._files.before()
        used_us = self._totals.activity.elapsed_us
        self._wall_time = WallTime(self._request.policy.caps, ports.clock, used_us=used_us)
        resilience = self._request.policy.resilience
        mode = resilience.write_failure
        ceilings = Ceilings(max_bytes=resilience.max_ledger_bytes, max_events=resilience.max_events)
        key, clock = self._keys.run, ports.clock
        guard = Guard(mode, ceilings, taken.past.before if taken is not None else None)
        reserve = Reserve.make(self._directory, END_ROOM + 2 * len(encode(self._opening.policy)))
        if taken is None:
            made = LedgerWriter.create(self._directory, key=key, clock=clock, guard=guard, reserve=reserve, lock=lock)
        else:
            made = LedgerWriter.resume(
                self._directory, lock, taken.past.read, key=key, clock=clock, guard=guard, reserve=reserve
            )
        self._writer = made
        stack.push_async_callback(self._writer.close)
        self._recorder = RunRecorder(self._writer, mode, ceilings, self._stopping)

    # ── open: the boundary listens, and who runs what is durable ──

    async def open(self, stack: AsyncExitStack) -> None:
        """Open the boundary and record the start of the session, durably. Raises LedgerError."""
        stack.enter_context(self._broken_world())
        asyncio.get_running_loop().set_exception_handler(LoopComplaints(self._announcer.problem))
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        self._assemble(tasks)
        self._leases = self._lease_budgets()
        if self._stopping.reason is not None:
            self._parts.boundary.end_run()
        await self._parts.boundary.start(self._preparation.listener)
        await self._parts.watching.start(self._preparation.health_listener)
        stack.push_async_callback(self._close_observers)
        stack.push_async_callback(self._parts.boundary.close)
        self._adapted = self._opening.adapted(self._parts.boundary)
        stack.callback(self._adapted.tidy)
        await self._begin()
        self._watches = [
            tasks.create_task(self._wall_time.watch(self._recorder, self._announcer, self._time_is_up)),
            tasks.create_task(self._parts.watching.watch()),
        ]
        if self._leases is not None:
            self._watches.append(tasks.create_task(self._leases.keep()))
        stack.callback(self._stop_watching)

    def _asked(self, number: Signals) -> None:
        """Somebody asked docket to end the run: nothing new is let through, whatever the agent still tries.

        Where everything has ended already, nothing is interrupted: the run is recorded as it went.
        """
        if self._over:
            return
        self._stopping.asked(number)
        if hasattr(self, "_parts"):  # else nothing listens yet
            self._parts.boundary.end_run()

    def _assemble(self, tasks: asyncio.TaskGroup) -> None:
        self._parts = Assembly(
            self._preparation,
            docket=self._opening.docket,
            ports=self._ports,
            directory=self._directory,
            writer=self._writer,
            taken_up=self._taken_up,
            recorder=self._recorder,
            under_way=self._under_way,
            tasks=tasks,
            on_breach=self._stopping.breached,
            on_fatal=self._stopping.fault,
            on_crowd=self._announcer.problem,
        )
        watching = self._parts.watching
        self._life = Lifecycle(watching.enter)
        self._writer.observe(self._totals.add)
        self._writer.observe(self._past.findings.add)
        self._writer.observe(self._tell_of_changes)
        if self._taken_up is not None:
            read_ledger(self._directory, watching.observe)
        self._writer.observe(watching.observe)
        self._recorder.on_sync = watching.observe_sync

    def _lease_budgets(self) -> Leases | None:
        """The leases of the budgets that this run shares, where it shares any."""
        store, fleet, request = self._preparation.store, self._preparation.request.policy.fleet, self._request
        if store is None:
            return None
        from docket.fleet.model import Holder
        from docket.supervisor.leases import Leases, Terms

        session = len(self._past.sessions)
        terms = Terms(
            store=store,
            holder=Holder(run=self._opening.docket, session=session, machine=host_name(), label=request.label or ""),
            names=fleet.budgets,
            limits=fleet.limits,
            allowance=fleet.allowance,
        )
        return Leases(
            terms,
            self._parts.gate.budget,
            self._parts.admission,
            base=self._past.rebooking.booked,
            record=self._recorder.submit,
            on_breach=self._stopping.breached,
            tell=self._announcer.problem,
            clock=self._ports.clock,
        )

    async def _begin(self) -> None:
        """Record who runs what, durably, and say so."""
        continues = self._taken_up.continues if self._taken_up is not None else None
        opening, adapted = self._opening, self._adapted
        start = await self._writer.append_watched(
            opening.start(adapted, self._keys, session=len(self._past.sessions), continues=continues)
        )
        if start is None:
            raise LedgerWriteError("the start of the run could not be written")
        self._past.sessions.append(Session(start))
        if await self._recorder.append(opening.policy_applied()) is None:
            raise LedgerWriteError("the policy of the run could not be written")
        if self._taken_up is not None and self._taken_up.torn is not None:
            await self._recorder.append(self._taken_up.torn)
        await self._recorder.append(self._files_before)
        if self._ports.begin is not None:
            self._ports.begin(self._recorder.submit)
        if not (await self._writer.checkpoint()).covered:
            raise LedgerWriteError("the first checkpoint of the run could not be written")
        self._announcer.run_key(opening.docket, self._keys.run.public)
        for remark in self._custody.remarks:
            self._announcer.problem(remark)
        if adapted.said is not None:
            self._announcer.remark(adapted.said)
        for problem in adapted.problems:
            self._announcer.problem(problem)

    @contextmanager
    def _broken_world(self) -> Iterator[None]:
        """Say what broke where a run cannot go on; its exit status is then that of a docket that failed."""
        try:
            yield
        except* (LedgerError, ProcessError) as group:
            where = self._directory.where()
            if self._life.phase is Phase.PREPARED:
                drop(self._directory)
            self._announcer.problem(f"{group.exceptions[0]}; no receipt, the ledger in {where} ends there")

    async def _close_observers(self) -> None:
        if (problem := await self._parts.watching.close()) is not None:
            self._announcer.problem(problem)

    # ── run, stop, reap: the agent and everything that it started ──

    async def run(self) -> None:
        """Run the agent and learn how it ended."""
        argv, environment = self._adapted.argv, self._adapted.environment
        spawned = await self._guardian.spawn(argv, environment, str(self._request.cwd))
        if isinstance(spawned, ExecFailed):
            reason = self._opening.secrets.redact(spawned.reason)
            self._announcer.problem(reason)
            self._exit = {"code": spawned.status}
            await self._recorder.append(ProcExit(code=spawned.status, private={"reason": reason}))
            return
        self._life.enter(Phase.RUNNING)
        self._note(ProcSpawn(pid=spawned.pid, private={"argv": self._opening.identity["argv"]}))
        status = await self._guardian.exited()
        self._exit = {"code": status.code} if status.code is not None else {"signal": cast(int, status.signal)}
        self._note(ProcExit(code=status.code, signal=status.signal, core_dumped=status.core_dumped or None))

    async def stop(self) -> None:
        """Refuse further calls, and have everything ended that the agent started."""
        self._parts.boundary.end_run()
        if self._life.phase is not Phase.PREPARED:
            self._life.enter(Phase.STOPPING)
            self._reaped = await self._guardian.reap(self._stopping.grace_seconds)
            self._life.enter(Phase.REAPED)
        self._over = True

    async def reap(self) -> None:
        """Record what outlived the agent, let the calls under way end, and record what changed in the files."""
        for orphan in self._reaped.orphans:
            command = self._opening.secrets.redact(orphan.command)
            self._note(ProcOrphan(pid=orphan.pid, ended=orphan.ended, private={"command": command}))
        if self._reaped.unnamed:
            self._note(Note(private={"text": f"{self._reaped.unnamed} further processes outlived the agent"}))
        for survivor in self._reaped.survivors:
            self._announcer.problem(f"process {survivor.pid} did not end within 10 s of SIGKILL")
        await self._parts.boundary.drain(DRAIN_SECONDS)
        await self._parts.boundary.close()
        await self._look_at_files()
        self._stop_watching()
        if self._leases is not None:
            await self._leases.settle()

    async def _look_at_files(self) -> None:
        """Record what changed in the files; a record that is broken says so when the run is sealed."""
        if self._recorder.broken is None:
            with suppress(LedgerError):
                breached = self._ending().breached
                alive = self._reaped.guardian_lost or bool(self._reaped.survivors)
                await self._files.after(self._recorder.submit, breached=breached, alive=alive)

    def _stop_watching(self) -> None:
        for watch in self._watches:
            watch.cancel()

    def _time_is_up(self, breach: CapExceeded) -> None:
        self._parts.admission.breach(breach)
        self._stopping.breached(breach)

    def _note(self, event: Event) -> None:
        """Record ``event``; a record that is broken has stopped the run already."""
        with suppress(LedgerError):
            self._recorder.submit(event)

    # ── seal: the end of the ledger and the receipt ──

    async def seal(self) -> int:
        """Write the receipt, say what the run came to; return docket's exit status, whatever could be recorded."""
        elsewhere = places(self._request.fallback_dir, self._request.environ)
        directory, folds, starts = self._directory, (self._totals, self._past.findings), self._past.starts
        try:
            sealed = await seal(
                directory, self._writer, *folds, self._receipt, self._keys, starts, os.urandom, elsewhere
            )
        except LedgerError as error:
            self._announcer.problem(f"{error}; no receipt, the ledger in {directory.path} ends there")
            return exit_status(self._ending())
        if sealed.problem is not None and self._request.policy.resilience.write_failure == "stop":
            self._stopping.evidence_broke(LedgerWriteError(sealed.problem))
        self._life.enter(Phase.SEALED)
        tell(self._opening, sealed, self._totals, self._announcer)
        if (later := directory.later()) is not None:
            self._announcer.remark(f"latest names another run now: {later}")
        return exit_status(replace(self._ending(), intact=sealed.run.evidence.intact))

    def _tell_of_changes(self, entry: Entry) -> None:
        """Say at once that another hand changed the record: the entry that tells of it is durable."""
        match entry.event:
            case PolicyViolation(rule="evidence", reason=reason):
                self._announcer.problem(f"the record was changed by another hand: {reason}")

    def _ending(self) -> Ending:
        return Ending(
            code=cast("int | None", self._exit.get("code")),
            signal=cast("int | None", self._exit.get("signal")),
            stop=Stop.GUARDIAN_LOST if self._reaped.guardian_lost else self._stopping.reason,
            breached=self._stopping.breach is not None or self._totals.activity.breach is not None,
        )

    def _receipt(self) -> Run:
        breach, ending = self._stopping.breach, self._ending()
        said = [*limits(hidden=self._hidden), *self._custody.limits, *self._files.limits]
        if not self._directory.names_durable:
            said.append(UNSYNCED)
        if self._taken_up is not None:
            said += self._taken_up.limits
        if not room_is_promised(file_system := file_system_of(self._directory.path)):
            said.append(NO_PROMISE.format(file_system))
        return Run(
            docket=self._opening.docket,
            created_at=timestamp(self._ports.clock.unix_us()),
            tool=TOOL,
            outcome=outcome(ending),
            exit=self._exit,
            breach={"cap": breach.cap, "limit": breach.limit, "observed": breach.observed} if breach else None,
            policy=self._opening.policy,
            tables=(*self._past.tables, self._opening.price_table),
            caps=self._parts.caps(self._request.policy),
            cache=self._parts.cache(),
            enforcement=enforcement(hidden=self._hidden, adopts=self._guardian.adopts, keys=self._custody.mechanism),
            private=self._opening.identity,
            limits=tuple(said),
        )
