"""What the operator asked for: one run, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from docket.policy.model import Policy

MAX_SNAPSHOT_BYTES = 2 * 2**30
"""Bytes that a snapshot keeps at most unless told otherwise: a source tree, and not somebody's home directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """One call of ``docket run``; the policy is the effective one, flags applied."""

    argv: tuple[str, ...]
    """The agent's command line, at least one word."""
    policy: Policy
    docket_dir: Path
    """Holds ``runs/`` and ``latest``; made when missing."""
    cwd: Path
    environ: Mapping[str, str]
    """docket's own environment; the agent's is derived from it."""
    policy_file: Path | None = None
    overrides: Mapping[str, str] = field(default_factory=dict)
    """Flags that changed the policy, by dotted key: recorded as private members of ``policy.applied``."""
    resume: Path | None = None
    """Run directory of the run that this session continues."""
    prices: Path | None = None
    label: str | None = None
    port: int = 0
    """Of the boundary on loopback; 0 takes any free one."""
    quiet: bool = False
    summary_file: Path | None = None
    snapshot: bool = False
    """Keep the contents of the agent's files before it starts, so that they can be restored."""
    snapshot_max_bytes: int = MAX_SNAPSHOT_BYTES
    rollback_on_breach: bool = False
    """Restore the files when a cap was reached; ``snapshot`` goes with it."""
    agent: str | None = None
    """The known agent that ``argv`` starts, where its command's name does not say so."""
    adapt: bool = True
    """Whether a known agent is pointed at the boundary by more than the base-URL variables."""
    fallback_dir: Path | None = None
    """Takes the receipt where the run directory cannot be written; the user's state directory comes after it."""
    hold_keys: bool = False
    """Whether providers' keys stay with docket and the agent gets the run's token in their place."""
    store: str | None = None
    """Address of the store of shared budgets, where the call names one."""
    operator_key: Path | None = None
    """Private operator key: endorses the run key and signs the receipt."""
