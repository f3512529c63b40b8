"""The facts that a ledger records: one frozen dataclass per fact, a closed union.

A dataclass field is the public member of the same name in ``data``; ``None`` means absent. ``private`` holds the
members that may be withheld. Nothing here knows about sequence numbers, times or hashes: the writer gives those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import ClassVar, Literal, NewType, TypeAlias

from docket.errors import UpstreamReason
from docket.ledger.usage import Usage
from docket.primitives.canonical import Json, JsonObject
from docket.primitives.frozen import frozen, value
from docket.primitives.money import Usd, spelled

CallNumber = NewType("CallNumber", int)
"""1, 2, 3, ... without gaps over a whole run, in the order of the events that introduce them."""
By = Literal["boundary", "supervisor", "agent", "doctor"]
"""Who asserts an event."""
Outcome = Literal["completed", "failed", "breached", "interrupted", "lost"]
AnswerReason: TypeAlias = Literal["background", "complete", "incomplete", "unterminated"]
"""Reasons of a ``model.response`` (evidence format section 2)."""
ErrorReason: TypeAlias = Literal[UpstreamReason, "client-gone", "status", "error-event", "lost"]
"""Reasons of a ``model.error``."""
EndReason: TypeAlias = Literal[AnswerReason, ErrorReason]
"""Why a call ended, as this version writes it; the record of a later version may hold others."""
CapName: TypeAlias = Literal[
    "max_usd", "max_tokens", "max_model_calls", "max_wall_seconds", "max_ledger_bytes", "max_events", "shared_budget"
]
"""The caps of a run, by their keys."""
RateName: TypeAlias = Literal["max_calls_per_second", "max_calls_per_minute"]
DeniedCode: TypeAlias = Literal[
    CapName,
    RateName,
    "model_denied",
    "unpriced",
    "unbounded_output",
    "unbounded_input",
    "unmetered_endpoint",
    "unknown_endpoint",
    "unreadable_request",
    "unreadable_message",
    "ambiguous_request",
    "breaker_open",
    "evidence_broken",
    "event_rate",
    "store_away",
    "run_ended",
]
"""Why a call is not forwarded, or an event of the agent not taken: the table of docs/caps.md."""
CarriageCode: TypeAlias = Literal[
    "body_too_large",
    "client_gone",
    "client_gone",
    "headers_too_long",
    "malformed_request",
    "malformed_target",
    "no_key_held",
    "target_too_long",
    "too_many_connections",
    "upgrade_with_body",
    "websocket_unsupported",
]
"""Why a request cannot be carried at all."""
Private: TypeAlias = "Mapping[str, Json]"


@frozen
class Fact:
    """What every event has."""

    type: ClassVar[str]
    by: By = "supervisor"
    private: Private = field(default_factory=dict)
    unknown: Mapping[str, Json] = field(default_factory=dict)
    """Members of ``data`` that a newer version wrote; they go back as they stood."""


@frozen
class Continues:
    """Where a later session takes up the ledger: the size before it, the root at that size, the hash before it."""

    size: int
    root: str
    head: str

    def to_json(self) -> JsonObject:
        return {"size": self.size, "root": self.root, "head": self.head}


@frozen
class SessionStart(Fact):
    """A supervisor took the ledger. Private: argv, cwd, host, label, environment names, adaptations."""

    type: ClassVar[str] = "session.start"
    docket: str
    session: int
    run_key: str
    policy: str
    prices: str
    tool: JsonObject
    platform: JsonObject
    endorsement: JsonObject | None = None
    continues: Continues | None = None


@frozen
class SessionEnd(Fact):
    """The last event of a session; its members are byte-equal to the receipt's."""

    type: ClassVar[str] = "session.end"
    outcome: Outcome
    exit: JsonObject
    totals: JsonObject
    usage_tree: JsonObject
    ops: JsonObject


@frozen
class PolicyApplied(Fact):
    """The effective policy. Private: source paths, overriding flags."""

    type: ClassVar[str] = "policy.applied"
    policy: str


@frozen
class PolicyViolation(Fact):
    """Something happened that the policy or the format forbids and docket could not prevent."""

    type: ClassVar[str] = "policy.violation"
    rule: str
    reason: str | None = None


@frozen
class CapWarning(Fact):
    """Booked use of a cap passed ``warn_at``. Amounts are decimal strings (USD) or integers in decimal spelling."""

    type: ClassVar[str] = "cap.warning"
    cap: CapName
    limit: str
    observed: str


@frozen
class CapExceeded(Fact):
    """Booked use reached a cap."""

    type: ClassVar[str] = "cap.exceeded"
    cap: CapName
    limit: str
    observed: str


@value
class Hold:
    """What a reservation keeps; ``usd`` is absent where the model has no price."""

    tokens: int
    usd: Usd | None = None

    def to_json(self) -> JsonObject:
        return {"tokens": self.tokens} if self.usd is None else {"tokens": self.tokens, "usd": spelled(self.usd.pico)}


@value
class ModelRequest(Fact):
    """A call was admitted and is about to be sent upstream. Private: target, request_sha256, body."""

    type: ClassVar[str] = "model.request"
    by: By = field(default="boundary", kw_only=True)
    call: CallNumber
    upstream: str
    provider: str
    protocol: str
    endpoint: str
    model: str
    stream: bool
    bytes: int
    hold: Hold
    waited_us: int
    max_output: int | None = None
    amended: bool | None = None
    retry_count: int | None = None
    of: CallNumber | None = None


@value
class _ModelEnd(Fact):
    by: By = field(default="boundary", kw_only=True)
    call: CallNumber
    status: int | None
    reason: EndReason
    provider: str
    model: str
    tier: str
    upstream: str
    finish: str | None = None
    provider_request_id: str | None = None
    bytes: int | None = None
    first_byte_us: int | None = None
    duration_us: int | None = None
    usage: Usage | None = None


@value
class ModelResponse(_ModelEnd):
    """The provider answered: ``complete``, ``incomplete`` (its limit), ``unterminated`` (content, no terminator),
    ``background`` (it took the request, and nobody saw the answer end).

    Private: response_sha256, body.
    """

    type: ClassVar[str] = "model.response"


@value
class ModelError(_ModelEnd):
    """The call ended badly: connect, timeout, status, truncated, error-event, client-gone, stale, lost.

    Private: response_sha256, body, detail.
    """

    type: ClassVar[str] = "model.error"


@frozen
class ModelDenied(Fact):
    """``count`` calls were refused and never forwarded; a refused call gets no number."""

    type: ClassVar[str] = "model.denied"
    by: By = "boundary"
    code: DeniedCode | CarriageCode
    """As this version writes it; the record of a later version may hold others."""
    final: bool
    count: int = 1
    retry_after: int | None = None
    estimated: bool | None = None
    """True where ``retry_after`` is docket's guess: money that other calls hold comes back when they end."""
    upstream: str | None = None
    model: str | None = None


@frozen
class ModelCacheHit(Fact):
    """A call was answered from a whole earlier answer of this run, ``origin``."""

    type: ClassVar[str] = "model.cache_hit"
    by: By = "boundary"
    call: CallNumber
    origin: CallNumber
    saved_usd: Usd | None = None


@frozen
class ToolCall(Fact):
    """The agent says that it called a tool. Private: whatever it said."""

    type: ClassVar[str] = "tool.call"
    by: By = "agent"


@frozen
class ToolResult(Fact):
    """The agent says what a tool returned. Private: whatever it said."""

    type: ClassVar[str] = "tool.result"
    by: By = "agent"


@frozen
class Note(Fact):
    """A remark. Private: text."""

    type: ClassVar[str] = "note"


@frozen
class FsSnapshot(Fact):
    """The watched tree was read: ``when`` is before or after.

    ``stored``: the contents too. ``uncovered`` and ``ignored`` count paths that could not be read or were left out by
    rule. After a run, ``changes`` counts every change by name, ``unlisted`` those without an event of their own, and
    ``intact`` is false where the record of the tree before the run was changed meanwhile: then nothing is known.
    Private: root, tree, manifest (digests of the canonical entries and of the file), uncovered, ignored.
    """

    type: ClassVar[str] = "fs.snapshot"
    when: str
    files: int
    bytes: int
    entries: int
    stored: bool
    uncovered: int
    ignored: int
    changes: JsonObject | None = None
    unlisted: int | None = None
    intact: bool | None = None


@frozen
class FsChange(Fact):
    """One path changed: ``change`` is added, modified, removed, renamed, type or mode.

    Private: path, origin (the old path of what was renamed), before and after (kind, mode, size, digest, target).
    """

    type: ClassVar[str] = "fs.change"
    change: str


@frozen
class ProcSpawn(Fact):
    """The agent was started. Private: argv."""

    type: ClassVar[str] = "proc.spawn"
    pid: int


@frozen
class ProcExit(Fact):
    """The agent itself ended: exactly one of ``code`` and ``signal``."""

    type: ClassVar[str] = "proc.exit"
    code: int | None = None
    signal: int | None = None
    core_dumped: bool | None = None


@frozen
class ProcOrphan(Fact):
    """A descendant outlived the agent. ``ended`` says how: exited, terminated, killed, survived. Private: command."""

    type: ClassVar[str] = "proc.orphan"
    pid: int
    ended: str


@frozen
class Forwarded(Fact):
    """A request that is no model call was forwarded. ``endpoint_class`` is free, unmetered or unknown.

    Private: target, detail.
    """

    type: ClassVar[str] = "x-docket.forwarded"
    by: By = "boundary"
    upstream: str
    method: str
    endpoint: str
    endpoint_class: str
    status: int | None = None
    reason: str | None = None


@frozen
class Unauthorized(Fact):
    """``count`` requests came without the run's token."""

    type: ClassVar[str] = "x-docket.unauthorized"
    by: By = "boundary"
    count: int


@frozen
class BreakerOpen(Fact):
    type: ClassVar[str] = "x-docket.breaker-open"
    by: By = "boundary"
    upstream: str
    reason: str
    failures: int
    cooldown_us: int


@frozen
class BreakerHalfOpen(Fact):
    type: ClassVar[str] = "x-docket.breaker-half-open"
    by: By = "boundary"
    upstream: str


@frozen
class BreakerClosed(Fact):
    type: ClassVar[str] = "x-docket.breaker-closed"
    by: By = "boundary"
    upstream: str
    reason: str


@frozen
class RateLimited(Fact):
    """The limiter refused ``count`` calls, which ``model.denied`` counts too; ``state`` is that at the last one."""

    type: ClassVar[str] = "x-docket.rate-limited"
    by: By = "boundary"
    limit: str
    retry_after: int
    state: JsonObject
    count: int = 1


@frozen
class RetryScheduled(Fact):
    """docket tries a call again by itself in ``wait_us``, as ``attempt``: ``call`` failed, or a breaker was open."""

    type: ClassVar[str] = "x-docket.retry-scheduled"
    by: By = "boundary"
    call: CallNumber | None = None
    upstream: str
    attempt: int
    reason: str
    status: int | None = None
    wait_us: int


@frozen
class FaultInjected(Fact):
    """A drill injected a fault on purpose."""

    type: ClassVar[str] = "x-docket.fault-injected"
    by: By = "boundary"
    fault: str
    call: CallNumber | None = None
    detail: JsonObject | None = None


@frozen
class LedgerGap(Fact):
    """Events that could not be written while the disk refused: ``lost`` is ``{count, types, tokens, cost_usd}``."""

    type: ClassVar[str] = "x-docket.ledger-gap"
    lost: JsonObject


@frozen
class LedgerRecovered(Fact):
    """A torn tail was moved to a sidecar before this event was appended."""

    type: ClassVar[str] = "x-docket.ledger-recovered"
    by: By = "doctor"
    offset: int
    bytes: int
    sha256: str


@frozen
class ClockStep(Fact):
    """The wall clock moved against the monotonic one."""

    type: ClassVar[str] = "x-docket.clock-step"
    step_us: int


@frozen
class RollbackApplied(Fact):
    """The tree was put back after a breach: paths by what became of them. Private: paths, record."""

    type: ClassVar[str] = "x-docket.rollback-applied"
    done: int
    already: int
    left: int
    refused: int
    failed: int


@frozen
class RollbackRefused(Fact):
    """The tree was not touched: ``reason`` is no-snapshot, survivors, record-changed or error. Private: detail."""

    type: ClassVar[str] = "x-docket.rollback-refused"
    reason: str


@frozen
class BudgetLeased(Fact):
    """A slice of shared ``budgets`` that this run may spend from here on; a dimension that is not limited is absent.

    ``source`` is store, or allowance: what the policy allows while the store is away. Private: lease.
    """

    type: ClassVar[str] = "x-docket.budget-leased"
    budgets: list[str]
    source: str
    usd: Usd | None = None
    tokens: int | None = None
    calls: int | None = None


@frozen
class BudgetReturned(Fact):
    """What was left of the leases of this session went back to the store, or could not: ``settled`` is false then.

    Private: detail.
    """

    type: ClassVar[str] = "x-docket.budget-returned"
    settled: bool
    usd: Usd
    tokens: int
    calls: int


@frozen
class BudgetRefused(Fact):
    """The store gave no lease: ``budget`` is used up for now, or for good (``final``); or the store is ``away``.

    Private: top (runs that used most of it), detail.
    """

    type: ClassVar[str] = "x-docket.budget-refused"
    away: bool
    final: bool = False
    budget: str | None = None
    limit: str | None = None
    used: str | None = None


@frozen
class Other(Fact):
    """An event of a type that this version does not know: kept as it stands."""

    type: ClassVar[str] = ""
    name: str
    data: JsonObject


Event: TypeAlias = (
    SessionStart
    | SessionEnd
    | PolicyApplied
    | PolicyViolation
    | CapWarning
    | CapExceeded
    | ModelRequest
    | ModelResponse
    | ModelError
    | ModelDenied
    | ModelCacheHit
    | ToolCall
    | ToolResult
    | Note
    | FsSnapshot
    | FsChange
    | ProcSpawn
    | ProcExit
    | ProcOrphan
    | Forwarded
    | Unauthorized
    | BreakerOpen
    | BreakerHalfOpen
    | BreakerClosed
    | RateLimited
    | RetryScheduled
    | FaultInjected
    | LedgerGap
    | LedgerRecovered
    | ClockStep
    | RollbackApplied
    | RollbackRefused
    | BudgetLeased
    | BudgetReturned
    | BudgetRefused
    | Other
)
