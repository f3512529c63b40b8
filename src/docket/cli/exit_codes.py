"""Exit statuses of every command, and which one an error gives."""

from __future__ import annotations

from docket.errors import DocketError, FormatError, UsageError

OK = 0
FAILED = 1
"""The thing asked about is not as it should be: a failed check, a refused restore."""
USAGE = 2
"""A wrong call, policy or file; nothing was started. ``verify``: unreadable."""
INCOMPLETE = 3
"""``verify``: consistent, but incomplete, recovered, unsealed or unfinished."""
BREACHED = 42
"""``run``: stopped by a cap."""
DOCKET_FAILED = 125
"""docket itself failed."""
CANNOT_EXECUTE = 126
NOT_FOUND = 127
INTERRUPTED = 130
BROKEN_PIPE = 141
"""128 + SIGPIPE: whoever read the output has gone, as a shell would say it."""


def of_error(error: DocketError) -> int:
    """The exit status that ``error`` gives where a command does not know better."""
    return USAGE if isinstance(error, UsageError | FormatError) else DOCKET_FAILED
