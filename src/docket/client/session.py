"""Writing to the record of the run that a program is in, from the program itself.

    with docket.Session() as session:
        session.tool_call("search", arguments={"q": "tide tables"})
        session.note("three results, none of this year")

The events go to the boundary of the run in the background, in order and once each, and are recorded as the agent's own
word. Outside docket the session takes everything and sends nothing, so that a program need not ask where it runs; or it
makes a run of its own, which ends and is sealed with it:

    with docket.Session(record=Path(".docket")) as session:
        session.note("nobody calls a model here")
"""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit

import orjson

from docket.client.outbox import Item, Later, Outbox, Refusal
from docket.errors import ProcessError, UsageError

TIMEOUT = 10.0
"""Seconds for one try to send: the boundary answers once the event is on stable storage."""
START_SECONDS = 30.0
"""How long a record of its own may take to begin, and to be sealed."""
HOLDER = "import os,sys;print(os.environ['DOCKET_EVENTS_URL'],os.environ['DOCKET_RUN'],flush=True);sys.stdin.read()"
"""The agent of a run that is only a record: it waits for the end of the session."""
CLOSE_SECONDS = 5.0
"""Seconds that the end of a session waits for what is not recorded yet."""
MAX_BODY = 64 * 1024
"""Bytes of an event, as the boundary takes it."""
AGAIN = (408, 425, 429, 500, 502, 503, 504)
"""Statuses after which the same event is sent again."""


class Session:
    """The agent's own word on the record of its run."""

    def __init__(
        self,
        url: str | None = None,
        *,
        record: Path | None = None,
        outbox: Path | None = None,
        on_refused: Callable[[Refusal], None] | None = None,
    ) -> None:
        """``url`` is that of the run's events, by default what ``DOCKET_EVENTS_URL`` says; without one nothing is sent.

        ``record`` is a docket directory in which the session makes a run of its own where it finds itself in none.
        ``outbox`` names a file that keeps what is not recorded yet, for a later process in the same run.
        ``on_refused`` is told, from another thread, of each event that the run refused for good; by default that is a
        warning. Raises UsageError where ``url`` is none, OutboxError where another process or another run
        uses ``outbox``, ProcessError where the record cannot be begun.
        """
        self.url = url if url is not None else os.environ.get("DOCKET_EVENTS_URL")
        self.number = os.environ.get("DOCKET_RUN", "")
        """The docket number of the run."""
        self._outbox: Outbox | None = None
        self._own: _OwnRun | None = None
        if not self.url and record is not None:
            self._own = _OwnRun(record)
            self.url, self.number = self._own.url, self._own.number
        if self.url:
            self._sender = _Sender(self.url)
            self._outbox = Outbox(self._sender, path=outbox, run=self.number, on_refused=on_refused or _warn)

    @property
    def attached(self) -> bool:
        """Whether there is a run that takes the events."""
        return self._outbox is not None

    def note(self, text: str, **members: object) -> None:
        """Put a remark on the record.

        Raises UsageError where it is too long or no JSON, OutboxError where too many events wait, or after the end.
        """
        self._put({"type": "note", "text": text, **members})

    def tool_call(self, name: str, **members: object) -> None:
        """Say that the agent calls the tool ``name``, usually with ``id`` and ``arguments``. Raises as ``note``."""
        self._put({"type": "tool.call", "name": name, **members})

    def tool_result(self, name: str, *, is_error: bool = False, **members: object) -> None:
        """Say what came of a call of the tool ``name``. Raises as ``note``."""
        self._put({"type": "tool.result", "name": name, "is_error": is_error, **members})

    def flush(self, seconds: float | None = None) -> bool:
        """Wait, at most so long, until all that was said is on the record or refused. Return whether it is."""
        return self._outbox is None or self._outbox.flush(seconds)

    def close(self) -> None:
        """Flush, and end. What is not recorded by then stays in the outbox file; without one a warning counts it."""
        if self._outbox is not None:
            left = self._outbox.close(CLOSE_SECONDS)
            self._sender.close()
            if self._own is not None:
                self._own.end()
            if left:
                warnings.warn(f"docket: {left} events are not recorded", RuntimeWarning, stacklevel=2)

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _put(self, event: dict[str, object]) -> None:
        try:
            body = orjson.dumps(event)
        except TypeError as error:
            raise UsageError(f"an event is JSON: {error}") from error
        if len(body) > MAX_BODY:
            raise UsageError(f"an event has at most {MAX_BODY} bytes, this one has {len(body)}")
        if self._outbox is not None:
            self._outbox.put(body)


class _OwnRun:
    """A run whose agent does nothing but wait: a ledger with a receipt, without a model call.

    It ends with the session, and also with the process, whose end closes the agent's input.
    """

    def __init__(self, directory: Path) -> None:
        """Begin a run in ``directory``. Raises ProcessError where it does not begin."""
        self._room = tempfile.TemporaryDirectory(prefix="docket-session-")  # nothing to look at for changes
        label = f"session of {Path(sys.argv[0]).name or 'python'}"
        command = [sys.executable, "-m", "docket", "run", "--quiet", "--docket-dir", str(directory.absolute())]
        command += ["--label", label, "--cwd", self._room.name, "--", sys.executable, "-c", HOLDER]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self._process.stdout is not None
        said = self._process.stdout.readline().decode().split()
        if len(said) != 2:
            _, problem = self._process.communicate(timeout=START_SECONDS)
            self._room.cleanup()
            raise ProcessError(f"the record cannot be begun: {problem.decode(errors='replace').strip()[-500:]}")
        self.url, self.number = said

    def end(self) -> None:
        """Let the run end, and wait for its receipt."""
        self._process.communicate(timeout=START_SECONDS)
        self._room.cleanup()
        if self._process.returncode:
            warnings.warn(f"docket: {self.number} ended with {self._process.returncode}", RuntimeWarning, stacklevel=3)


class _Sender:
    """Posts items on one connection, which it opens again when it was lost."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = None
        if parts.scheme not in ("http", "https") or not parts.hostname or (port is None and ":" in parts.netloc):
            raise UsageError("the address of a run's events begins with http:// and names a host and a port")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname, port, timeout=TIMEOUT)
        self._path = parts.path

    def close(self) -> None:
        """Give the connection back."""
        self._connection.close()

    def __call__(self, item: Item) -> Refusal | Later | None:
        headers = {"Content-Type": "application/json", "Idempotency-Key": item.key}
        try:
            self._connection.request("POST", self._path, item.body, headers)
            answer = self._connection.getresponse()
            said = answer.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            return Later()
        if answer.status == 200:
            return None
        if answer.status in AGAIN:
            after = answer.headers.get("Retry-After", "")
            return Later(float(after) if after.isdecimal() else None)
        return Refusal(item, answer.status, _reason(said))


def _reason(said: bytes) -> str:
    """What a refusal says, or nothing where it is no answer of docket's."""
    try:
        return str(orjson.loads(said)["error"]["message"])
    except (ValueError, LookupError, TypeError):
        return ""


def _warn(refusal: Refusal) -> None:
    warnings.warn(f"docket refused an event ({refusal.status}): {refusal.reason}", RuntimeWarning, stacklevel=2)
