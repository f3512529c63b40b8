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
from signal import Signals
from typing import cast

from docket.errors import LedgerError, LedgerWriteError, ProcessError
from docket.host import host
from docket.ledger.events import (
    CapExceeded,
    CapWarning,
    Event,
    Note,
    PolicyApplied,
    ProcExit,
    ProcOrphan,
    ProcSpawn,
    SessionStart,
)
from docket.policy.document import document
from docket.pricing.table import PriceTable
from docket.primitives.canonical import Json, JsonObject
from docket.primitives.instant import timestamp
from docket.primitives.money import Usd
from docket.process.outcome import ExecFailed
from docket.process.signals import SignalRelay
from docket.process.supervision import Guardian
from docket.receipt import build
from docket.receipt.model import Run
from docket.storage.guard import Ceilings, WriteFailure
from docket.storage.keys import hide_memory, new_run_key
from docket.storage.paths import RECEIPT, RunDirectory, docket_number
from docket.storage.reader import read_ledger
from docket.storage.writer import LedgerWriter
from docket.supervisor.adapting import Adapted, adapt
from docket.supervisor.announce import Announcer, figures, summary, write_summaries
from docket.supervisor.assembly import Assembly
from docket.supervisor.environment import Route, agent_environment, changed_names
from docket.supervisor.files import RunFiles
from docket.supervisor.lifecycle import EXIT_DOCKET_FAILED, Ending, Phase, Stop, exit_status, outcome
from docket.supervisor.past import Past, Session
from docket.supervisor.ports import Ports
from docket.supervisor.preparation import Preparation, prepare
from docket.supervisor.recorder import RunRecorder
from docket.supervisor.request import RunRequest
from docket.supervisor.resuming import TakenUp, take_up
from docket.supervisor.seal import TOOL, Keys, host_name, seal, session_start
from docket.supervisor.secrets import Secrets

WALL = "max_wall_seconds"
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
        self._preparation = preparation
        self._request = request = preparation.request
        self._prices = preparation.prices
        self._guardian = guardian
        self._keys = keys
        self._ports = ports
        self._clock = clock = ports.clock
        self._hidden = hidden
        self._announcer = Announcer(quiet=request.quiet)
        self._secrets = Secrets(request.environ)
        self._taken_up = taken_up
        self._past = taken_up.past if taken_up is not None else Past()
        self._totals = self._past.totals
        self._started_us = clock.monotonic_us()
        self._policy_document = document(request.policy, os.urandom)
        self._number = taken_up.run.name if taken_up is not None else docket_number(clock.unix_us(), os.urandom)
        self._stop: Stop | None = None
        self._exit: JsonObject = {}
        self._guardian_lost = False
        self._may_live = False

    def _enter(self, phase: Phase) -> None:
        self._parts.watching.phase = phase

    @property
    def _grace_seconds(self) -> float:
        return self._request.policy.caps.grace_seconds.us / 1e6

    async def main(self) -> int:
        """The whole life of the run; gives docket's exit status."""
        directory = (
            self._taken_up.run
            if self._taken_up is not None
            else RunDirectory.create(self._request.docket_dir, self._number, self._ports.disk)
        )
        try:
            self._files = RunFiles(self._request, directory, self._announcer, self._clock)
            try:
                self._files_before = await self._files.before()
                self._started_us = self._clock.monotonic_us() - self._totals.activity.elapsed_us
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
        key, clock = self._keys.run, self._clock
        if taken is None:
            return LedgerWriter.create(directory, key=key, clock=clock, on_write_failure=mode, ceilings=ceilings)
        return LedgerWriter.resume(
            directory, taken.lock, taken.past.read, key=key, clock=clock, on_write_failure=mode, ceilings=ceilings
        )

    async def _recorded(self, directory: RunDirectory, writer: LedgerWriter) -> int:
        self._recorder = RunRecorder(writer, self._evidence_broke, self._evidence_lost)
        self._parts = Assembly(
            self._preparation,
            docket=self._number,
            ports=self._ports,
            directory=directory,
            writer=writer,
            taken_up=self._taken_up,
            recorder=self._recorder,
            on_breach=self._breached,
            on_fatal=self._fault,
        )
        writer.observe(self._totals.add)
        if self._taken_up is not None:
            read_ledger(directory, self._parts.watching.observe)
        writer.observe(self._parts.watching.observe)
        writer.observe_syncs(self._parts.watching.observe_sync)
        writer.when_full(self._full)
        status = EXIT_DOCKET_FAILED
        try:
            async with asyncio.TaskGroup() as tasks:
                await self._parts.boundary.start(self._preparation.listener, tasks)
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
        boundary = self._parts.boundary
        adapted = self._adapted()
        start = await writer.append_watched(self._session_start(adapted))
        if start is None:
            raise LedgerWriteError("the start of the run could not be written")
        self._past.sessions.append(Session(start))
        await self._recorder.append(self._policy_applied())
        if self._taken_up is not None and self._taken_up.torn is not None:
            await self._recorder.append(self._taken_up.torn)
        await self._recorder.append(self._files_before)
        if self._ports.begin is not None:
            self._ports.begin(self._recorder.submit)
        await writer.checkpoint()
        self._announcer.run_key(self._number, self._keys.run.public)
        if adapted.said is not None:
            self._announcer.remark(adapted.said)
        for problem in adapted.problems:
            self._announcer.problem(problem)
        with SignalRelay(self._guardian, grace_seconds=self._grace_seconds, on_ending=self._asked_to_end):
            watches = [
                tasks.create_task(self._watch_wall_time()),
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

    # ── before the agent ──

    def _adapted(self) -> Adapted:
        """The agent's command line and environment, pointed at the boundary."""
        boundary = self._parts.boundary
        routes = tuple(
            Route(name=upstream.name, protocol=upstream.protocol, base_url=boundary.base_url(upstream.name))
            for upstream in self._request.policy.upstreams
        )
        environment = agent_environment(self._request.environ, routes, self._number)
        environment |= {"DOCKET_EVENTS_URL": boundary.events_url, "DOCKET_BUDGET_URL": boundary.budget_url}
        request = self._request
        return adapt(request.argv, environment, routes, cwd=request.cwd, agent=request.agent, enabled=request.adapt)

    def _session_start(self, adapted: Adapted) -> SessionStart:
        private: dict[str, Json] = {
            **self._identity(),
            "host": host_name(),
            "environment": cast("list[Json]", changed_names(self._request.environ, adapted.environment)),
        }
        if adapted.did or adapted.problems:
            private["adaptations"] = cast("list[Json]", [adapted.agent, *adapted.did, *adapted.problems])
        return session_start(
            docket=self._number,
            keys=self._keys,
            policy=build.document_digest(self._policy_document),
            prices=self._prices.digest(),
            private=private,
            session=len(self._past.sessions),
            continues=self._taken_up.continues if self._taken_up is not None else None,
        )

    def _identity(self) -> dict[str, Json]:
        """What a receipt and a session start say alike of the call, without credentials."""
        identity: dict[str, Json] = {
            "argv": cast("list[Json]", self._secrets.redact_argv(self._request.argv)),
            "cwd": str(self._request.cwd),
        }
        if self._request.label is not None:
            identity["label"] = self._secrets.redact(self._request.label)
        return identity

    def _policy_applied(self) -> PolicyApplied:
        private: dict[str, Json] = {
            "overrides": {key: self._secrets.redact(value) for key, value in self._request.overrides.items()},
            "document": self._policy_document,  # what a recovered receipt is built from
            "prices": _about(self._prices),
        }
        if self._request.policy_file is not None:
            private["file"] = str(self._request.policy_file)
        return PolicyApplied(policy=build.document_digest(self._policy_document), private=private)

    # ── the agent ──

    async def _agent(self, adapted: Adapted) -> None:
        """Run the agent and learn how it ended."""
        spawned = await self._guardian.spawn(adapted.argv, adapted.environment, str(self._request.cwd))
        if isinstance(spawned, ExecFailed):
            reason = self._secrets.redact(spawned.reason)
            self._announcer.problem(reason)
            self._exit = {"code": spawned.status}
            await self._recorder.append(ProcExit(code=spawned.status, private={"reason": reason}))
            return
        self._enter(Phase.RUNNING)
        self._note(ProcSpawn(pid=spawned.pid, private={"argv": self._identity()["argv"]}))
        status = await self._guardian.exited()
        self._enter(Phase.STOPPING)
        self._exit = {"code": status.code} if status.code is not None else {"signal": cast(int, status.signal)}
        self._note(ProcExit(code=status.code, signal=status.signal, core_dumped=status.core_dumped or None))

    async def _reap(self) -> None:
        """Have everything that the agent started ended; what outlived it is recorded."""
        if self._parts.watching.phase is Phase.PREPARED:
            return
        reaped = await self._guardian.reap(self._grace_seconds)
        self._enter(Phase.REAPED)
        self._guardian_lost = reaped.guardian_lost
        self._may_live = reaped.guardian_lost or bool(reaped.survivors)
        for orphan in reaped.orphans:
            command = self._secrets.redact(orphan.command)
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

    # ── reasons to stop ──

    def _stop_agent(self, stop: Stop, detail: str) -> None:
        if self._stop is None:
            self._stop = stop
            if stop is not Stop.CAP:
                self._announcer.stopping(stop, detail)
            self._guardian.stop(self._grace_seconds)

    def _asked_to_end(self, number: Signals) -> None:
        """The relay has forwarded the signal already."""
        if self._stop is None:
            self._stop = Stop.SIGNAL
            self._announcer.remark(f"{number.name}: ending the run")

    def _evidence_broke(self, error: LedgerError) -> None:
        self._stop_agent(Stop.EVIDENCE, str(error))

    def _evidence_lost(self) -> None:
        mode = self._request.policy.resilience.write_failure
        consequence = "no model call is forwarded meanwhile" if mode == "refuse" else "the run goes on without it"
        self._announcer.problem(f"an event could not be written to the ledger; {consequence}")

    def _fault(self, error: Exception) -> None:
        if not isinstance(error, LedgerError):
            self._stop_agent(Stop.INTERNAL, f"fault of docket itself: {type(error).__name__}")

    def _breached(self, event: CapExceeded) -> None:
        """A cap was reached, and the answer that reached it was delivered."""
        caps = self._request.policy.caps
        kill = caps.on_breach == "kill"
        self._announcer.breached(event, kill=kill)
        if caps.cut_streams:
            self._parts.boundary.cut_streams()
        if kill:
            self._stop_agent(Stop.CAP, event.cap)

    def _full(self, event: CapExceeded) -> None:
        """The ledger met a ceiling; whatever ``on_breach`` says, an unrecorded run does not go on."""
        self._announcer.breached(event, kill=True)
        self._stop_agent(Stop.CAP, event.cap)

    async def _watch_wall_time(self) -> None:
        caps = self._request.policy.caps
        if caps.max_wall_seconds is None:
            return
        limit_us = caps.max_wall_seconds.us
        await self._until(int(limit_us * caps.warn_at))
        warning = CapWarning(cap=WALL, limit=_seconds(limit_us), observed=_seconds(self._elapsed_us()))
        self._note(warning)
        self._announcer.warned(warning)
        await self._until(limit_us)
        breach = CapExceeded(cap=WALL, limit=_seconds(limit_us), observed=_seconds(self._elapsed_us()))
        with suppress(LedgerError):
            await self._recorder.append(breach)
            self._parts.gate.breach(breach)
            self._breached(breach)

    async def _until(self, elapsed_us: int) -> None:
        while (left := elapsed_us - self._elapsed_us()) > 0:  # noqa: ASYNC110 (it is time itself that is waited for)
            await asyncio.sleep(left / 1e6)

    def _elapsed_us(self) -> int:
        return self._clock.monotonic_us() - self._started_us

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
        evidence = position.evidence
        totals = self._totals.to_json(whole=evidence.whole)
        self._announcer.root(self._number, position.root)
        self._announcer.remark(f"{run.outcome}, {figures(totals)}; receipt: {directory.path / RECEIPT}")
        if not evidence.whole:
            self._announcer.problem(
                f"the record is not whole: {evidence.unwritten_events} events are not in the ledger"
            )
        text = summary(
            self._number, cast("str | None", self._identity().get("label")), run.outcome, totals, position.root
        )
        for problem in write_summaries(text, self._request.summary_file, self._request.environ):
            self._announcer.problem(problem)
        return exit_status(ending)

    def _ending(self) -> Ending:
        return Ending(
            code=cast("int | None", self._exit.get("code")),
            signal=cast("int | None", self._exit.get("signal")),
            stop=Stop.GUARDIAN_LOST if self._guardian_lost else self._stop,
            breached=self._totals.activity.breach is not None,
        )

    def _receipt(self, ending: Ending) -> Run:
        return Run(
            docket=self._number,
            created_at=timestamp(self._clock.unix_us()),
            tool=TOOL,
            outcome=outcome(ending),
            exit=self._exit,
            policy=self._policy_document,
            tables=(*self._past.tables, _about(self._prices)),
            caps=self._parts.caps(self._request.policy),
            cache=self._parts.cache(),
            enforcement=self._enforcement(),
            private=self._identity(),
            limits=self._limits(),
        )

    def _enforcement(self) -> JsonObject:
        machine = host()
        return {
            "memory": "hidden from other processes of the user" if self._hidden else "readable by the same user",
            "process_tree": "guardian as child subreaper" if machine.subreaper else "process group",
            "model_calls": "caps hold for calls that cross the boundary; other traffic is not prevented",
        }

    def _limits(self) -> tuple[str, ...]:
        said = [*host().limits, *self._files.limits]
        if not self._totals.requests and not self._totals.denied:
            said.append("No model call crossed the boundary: whatever the agent spent went around it.")
            self._announcer.problem("no model call crossed the boundary: is the agent pointed at docket?")
        if self._taken_up is not None:
            said += self._taken_up.limits
        if not self._hidden:
            said.append("docket's memory could be read by processes of the same user: the run key may be known.")
        return tuple(said)


def _seconds(us: int) -> str:
    return str(Usd(us * 1_000_000))


def _about(prices: PriceTable) -> JsonObject:
    return {"digest": prices.digest(), "source": prices.source, "date": prices.date}
