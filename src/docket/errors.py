"""The exceptions of a broken world, by whose fault it is. Expected outcomes are values, never exceptions.

Every error has a stable ``code`` for programs and an optional ``hint``, the way out, for people. No message
ever holds a credential.
"""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

UpstreamReason: TypeAlias = Literal["connect", "timeout", "stale", "truncated"]
"""How an upstream fails a call before its answer is whole (docs/boundary.md, When a side fails)."""


class DocketError(Exception):
    """Base of everything docket raises on purpose."""

    code: ClassVar[str] = "docket"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(DocketError):
    """The operator's call or file is wrong; nothing was started."""

    code = "usage"


class PolicyError(UsageError):
    """The policy file says something that cannot be meant. ``path`` is ``file: table.key``."""

    code = "policy"

    def __init__(self, message: str, *, path: str, hint: str | None = None) -> None:
        super().__init__(f"{path}: {message}", hint=hint)
        self.path = path


class AgentError(DocketError):
    """The agent's side of a call is at fault: a malformed request, or a client that went away."""

    code = "agent"


class ClientGoneError(AgentError):
    """The agent closed its connection before the answer ended."""

    code = "client-gone"


class UpstreamError(DocketError):
    """The provider's side of a call failed. ``reason`` is the ``reason`` of the ``model.error`` event."""

    code = "upstream"

    def __init__(self, message: str, *, reason: UpstreamReason) -> None:
        super().__init__(message)
        self.reason = reason


class LedgerError(DocketError):
    """The record cannot be read or written."""

    code = "ledger"


class LedgerLockedError(LedgerError):
    """Another live process holds the ledger; the message names it."""

    code = "ledger-locked"


class LedgerDamagedError(LedgerError):
    """The ledger is not something a writer may append to."""

    code = "ledger-damaged"


class LedgerWriteError(LedgerError):
    """An event could not be made durable."""

    code = "ledger-write"


class FormatError(DocketError):
    """Bytes that are not what they claim to be. ``where`` names the place when it is known."""

    code = "format"

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(f"{where}: {message}" if where else message, hint=hint)
        self.where = where


class SnapshotError(DocketError):
    """The files of a run cannot be read or kept as asked."""

    code = "snapshot"


class ProcessError(DocketError):
    """The agent could not be started or supervised."""

    code = "process"
