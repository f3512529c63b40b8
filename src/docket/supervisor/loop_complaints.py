"""What the event loop complains of, one line a condition; and descriptors enough that it has little reason to."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable
from contextlib import suppress
from typing import Any

MAX_CONDITIONS = 32
"""Different complaints that are said; a loop in distress must not fill a terminal or a log."""


class LoopComplaints:
    """An exception handler of a loop (asyncio): says each kind of complaint once, without a traceback."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._said: set[str] = set()

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Say what ``context`` holds, unless that kind was said before.

        The text of a foreign exception may quote a request: only its type is told, and an error number's meaning.
        """
        error = context.get("exception")
        words = [str(context.get("message", "the event loop complains"))]
        if isinstance(error, OSError) and error.strerror:
            words.append(error.strerror)
        elif error is not None:
            words.append(type(error).__name__)
        line = ": ".join(words)
        if line not in self._said and len(self._said) < MAX_CONDITIONS:
            self._said.add(line)
            self._say(f"{line} (said once)")


def raise_descriptor_limit() -> int:
    """Raise this process's soft limit of open files to its hard limit; return the limit then (setrlimit(2))."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS refuses more than OPEN_MAX
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
