"""Rules on what the policy does not allow: calls that it refuses, files that it protects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from docket.findings.model import NOTHING, UNKNOWN, Basis, Finding, Severity, named
from docket.findings.rule import MAX_GROUPS, Rule
from docket.ledger.chain import Entry
from docket.ledger.events import FsSnapshot, ModelDenied, PolicyApplied, PolicyViolation

MAX_MODELS = 3
"""Models that a finding names."""


class _Refused:
    __slots__ = ("basis", "calls", "models")

    def __init__(self) -> None:
        self.basis = Basis()
        self.calls = 0
        self.models: dict[str, None] = {}


class PolicyDenials(Rule):
    """The agent kept asking for what the policy refuses. A refused call is never sent, and costs nothing."""

    name: ClassVar[str] = "policy-denials"
    severity: ClassVar[Severity] = "warning"
    remedy: ClassVar[str] = (
        "Tell the agent what it may use, or allow it in docket.toml: docs/caps.md says what each code refuses and how "
        'to allow it. Where the agent does not take no for an answer, caps.on_breach = "kill" ends it.'
    )
    types: ClassVar[tuple[str, ...]] = (ModelDenied.type,)

    def __init__(self, thresholds: Mapping[str, int]) -> None:
        super().__init__(thresholds)
        self._codes: dict[tuple[str, bool], _Refused] = {}

    def event(self, entry: Entry) -> None:
        event = entry.event
        if not isinstance(event, ModelDenied):
            return
        key = (event.code, event.final)
        if key not in self._codes and len(self._codes) >= MAX_GROUPS:
            return
        refused = self._codes.setdefault(key, _Refused())
        refused.basis.add(entry.seq)
        refused.calls += event.count
        if event.model is not None and len(refused.models) < MAX_MODELS:
            refused.models[named(event.model)] = None

    def findings(self) -> Iterator[Finding]:
        for (code, final), refused in self._codes.items():
            if refused.calls >= self.limits["final" if final else "temporary"]:
                models = f" ({', '.join(refused.models)})" if refused.models else ""
                until = "no waiting would have helped" if final else "each said how long to wait"
                yield self.found(
                    "deterministic",
                    f"{refused.calls:,} calls were refused with {code}{models}; {until}. None was sent.",
                    refused.basis.seqs,
                    refused.basis.count,
                    NOTHING,
                )


class WriteScope(Rule):
    """Files changed that the policy says the agent must not change."""

    name: ClassVar[str] = "write-scope"
    severity: ClassVar[Severity] = "error"
    remedy: ClassVar[str] = (
        "See what changed (docket restore RUN) and put it back; start the agent where such files are read-only, since "
        "docket sees a change and cannot prevent it."
    )
    types: ClassVar[tuple[str, ...]] = (PolicyViolation.type, PolicyApplied.type, FsSnapshot.type)

    def __init__(self, thresholds: Mapping[str, int]) -> None:
        super().__init__(thresholds)
        self._basis = Basis()
        self._paths = 0
        self._snapshots = 0
        self._stated: bool | None = None

    def event(self, entry: Entry) -> None:
        match entry.event:
            case PolicyViolation(rule="deny_write", reason=reason, private=private):
                more = private.get("count") if reason == "more" else None
                self._basis.add(entry.seq)
                self._paths += more if type(more) is int else 1
            case PolicyApplied(private=private):
                self._stated = _denies(private.get("document"))
            case FsSnapshot():
                self._snapshots += 1
            case _:
                pass

    def findings(self) -> Iterator[Finding]:
        if self._paths >= self.limits["paths"]:
            yield self.found(
                "deterministic",
                f"{self._paths:,} protected paths changed while the run went on (files.deny_write). What that costs is "
                "no figure of a bill.",
                self._basis.seqs,
                self._basis.count,
                UNKNOWN,
            )

    def needs(self) -> str | None:
        if not self._snapshots:
            return "No files were watched (files.watch): what the agent wrote is not recorded."
        if self._stated is False:
            return "The policy protects no path (files.deny_write): which writes were out of scope, nobody said."
        if self._stated is None:
            return "What the policy protects is withheld here: which writes were out of scope cannot be seen."
        return None


def _denies(document: object) -> bool | None:
    """Return whether a policy document protects any path; None where it does not show."""
    files = document.get("files") if isinstance(document, dict) else None
    private = files.get("private") if isinstance(files, dict) else None
    member = private.get("deny_write") if isinstance(private, dict) else None
    value = member.get("value") if isinstance(member, dict) else None
    return bool(value) if isinstance(value, list) else None
