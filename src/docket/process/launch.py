"""Starts the agent: fork, its own process group or session, the terminal, and execve(2) as a shell would.

Only called in the single-threaded guardian. What is wrong with the command is a value: 127 not found, 126 found but
cannot be run (POSIX.1-2017, 2.8.2 Exit Status for Commands); a file without a header line goes to /bin/sh, as
execvp(3) does.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterable
from typing import NamedTuple, NoReturn

from docket.host import Host

NOT_FOUND = 127
CANNOT_RUN = 126
_DEFAULT_PATH = b"/usr/local/bin:/usr/bin:/bin"


class Command(NamedTuple):
    """What to run: ``argv`` is not empty, ``env`` is whole (nothing is inherited), ``cwd`` is absolute."""

    argv: list[bytes]
    env: dict[bytes, bytes]
    cwd: bytes


class Launch(NamedTuple):
    """A forked agent that has not yet replaced itself: ``verdict`` reads its complaint, or ends empty at execve."""

    pid: int
    verdict: int


def launch(
    command: Command,
    *,
    machine: Host,
    own_session: bool,
    place: Callable[[int], None],
    prepare: Callable[[], None],
    ignored: Iterable[int],
    mask: Iterable[int],
) -> Launch:
    """Fork the agent.

    ``place`` is called here with its pid once its process group exists and before it replaces itself (terminal),
    ``prepare`` in the agent (control group); ``ignored`` signals stay ignored, all others get their default action, and
    ``mask`` is the signal mask docket was started with.
    """
    reading, writing = os.pipe()
    waiting, going = os.pipe()
    guardian = os.getpid()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(writing)
        os.close(waiting)
        os.set_blocking(reading, False)
        if not own_session:
            os.setpgid(pid, pid)
        place(pid)
        os.write(going, b".")
        os.close(going)
        return Launch(pid, reading)
    os.close(going)
    complaint = f"{CANNOT_RUN} the agent could not be prepared"
    try:
        if own_session:
            os.setsid()
        if machine.death_signal:
            from docket.process.kernel import die_with_parent

            die_with_parent(signal.SIGKILL)
        if os.getppid() != guardian or not os.read(waiting, 1):
            os._exit(CANNOT_RUN)  # the guardian died between fork and here
        prepare()
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)
        os.chdir(command.cwd)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        _execute(command)
    except OSError as error:
        complaint = _complaint(command, error)
    finally:
        try:
            os.write(writing, complaint.encode("utf-8", "surrogateescape"))
        finally:
            os._exit(CANNOT_RUN)


def _execute(command: Command) -> NoReturn:
    name = command.argv[0]
    refusal: OSError = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    for candidate in _candidates(name, command.env.get(b"PATH", _DEFAULT_PATH)):
        try:
            os.execve(candidate, command.argv, command.env)
        except OSError as error:
            if error.errno == errno.ENOEXEC:
                os.execve(b"/bin/sh", [b"/bin/sh", candidate, *command.argv[1:]], command.env)
            if error.errno not in (errno.ENOENT, errno.ENOTDIR) or os.path.exists(candidate):
                error.filename = candidate
                refusal = error
    raise refusal


def _candidates(name: bytes, path: bytes) -> list[bytes]:
    if b"/" in name or not name:
        return [name]
    return [os.path.join(folder or b".", name) for folder in path.split(b":")]


def _complaint(command: Command, error: OSError) -> str:
    if error.filename == command.cwd:
        return f"{CANNOT_RUN} {_text(command.cwd)}: cannot change to this directory: {error.strerror}"
    name = error.filename if isinstance(error.filename, bytes) else command.argv[0]
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        if os.path.exists(name):
            return f"{CANNOT_RUN} {_text(name)}: the interpreter named in its first line does not exist"
        return f"{NOT_FOUND} {_text(name)}: command not found"
    return f"{CANNOT_RUN} {_text(name)}: cannot be run: {error.strerror}"


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")
