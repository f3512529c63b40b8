"""Scripted agents for supervision tests: ``python agents.py NAME [ARGUMENT...]``. They never wait for time."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import termios
import tty


def say(text: str) -> None:
    """One line, at once; also from a signal handler, which buffered output does not allow."""
    os.write(1, text.encode() + b"\n")


def report_signals(*names: str) -> None:
    """Handle each named signal by saying it with its count, for ever."""
    counts: dict[str, int] = {}

    def handle(number: int, frame: object) -> None:
        name = signal.Signals(number).name
        counts[name] = counts.get(name, 0) + 1
        say(f"{name} {counts[name]}")

    for name in names:
        signal.signal(getattr(signal, name), handle)
    say("ready")
    while True:
        signal.pause()


def read_lines() -> None:
    """Echo lines of the terminal with the signals that came in between; ``q`` ends with code 7."""

    def handle(number: int, frame: object) -> None:
        say(f"<{signal.Signals(number).name}>")

    for number in (signal.SIGINT, signal.SIGWINCH, signal.SIGCONT):
        signal.signal(number, handle)
    say(f"ready foreground={os.tcgetpgrp(0) == os.getpgrp()} leader={os.getpgrp() == os.getpid()}")
    for line in sys.stdin:
        if line.strip() == "q":
            sys.exit(7)
        if line.strip() == "size":
            say(f"size {os.get_terminal_size(0).lines}x{os.get_terminal_size(0).columns}")
        say(f"line {line.strip()}")


def raw_mode(then: str) -> None:
    """Raw mode as a full-screen agent has it; then ``die``, ``stop`` or ``wait``."""
    before = termios.tcgetattr(0)
    tty.setraw(0)
    say("raw\r")
    if then == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    while True:
        key = os.read(0, 1)
        if key == b"\x1a":  # Ctrl-Z is a byte in raw mode: such agents stop themselves
            os.kill(os.getpid(), signal.SIGTSTP)
            say("resumed echo=" + str(bool(termios.tcgetattr(0)[3] & termios.ECHO)) + "\r")
        elif key == b"q":
            termios.tcsetattr(0, termios.TCSADRAIN, before)
            sys.exit(0)


def stubborn() -> None:
    """Ignore what asks for the end."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    say("ready")
    while True:
        signal.pause()


def _wait_for_ever() -> None:
    while True:
        signal.pause()


def _detach(*, twice: bool, ignore: bool) -> int:
    """Start a process that leaves group and session, and with ``twice`` its parent too; returns its pid."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if twice and os.fork():
            os._exit(0)
        if ignore:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.write(writing, str(os.getpid()).encode())
        os.close(writing)
        _wait_for_ever()
    os.close(writing)
    pid = int(os.read(reading, 20))
    os.close(reading)
    return pid


def tree(shape: str, then: str) -> None:
    """Leave a tree of the given shape behind; says every pid; ``then`` is ``exit`` or ``stay``."""
    pids: list[int] = []
    match shape:
        case "setsid":
            pids.append(_detach(twice=False, ignore=False))
        case "daemon":
            pids.append(_detach(twice=True, ignore=False))
        case "stubborn":
            pids.append(_detach(twice=True, ignore=True))
        case "nohup":
            pids.append(subprocess.Popen(["nohup", "sleep", "300"], stdout=subprocess.DEVNULL).pid)
        case "children":
            pids += [_child() for _ in range(1000)]
        case "zombies":
            pids += [_zombie() for _ in range(200)]
        case "threads":
            pids.append(_leaderless())
        case "stopped":
            pids.append(_detach(twice=True, ignore=False))
            os.kill(pids[0], signal.SIGSTOP)
        case "ten":
            pids += [_child() for _ in range(3)]
            pids += [_detach(twice=True, ignore=True) for _ in range(3)]
            pids += [_detach(twice=False, ignore=False) for _ in range(3)]
    say("tree " + " ".join(map(str, [os.getpid(), *pids])))
    if then == "stay":
        _wait_for_ever()


def _child() -> int:
    pid = os.fork()
    if pid == 0:
        _wait_for_ever()
    return pid


def _zombie() -> int:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # a zombie it is only once it has ended
    return pid


def _leaderless() -> int:
    """A process whose main thread has ended while another goes on: state Z, and very much alive."""
    code = (
        "import ctypes, threading, signal\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})\n"
        "threading.Thread(target=lambda: (print(flush=True), signal.sigwait({signal.SIGUSR1}))).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    process.stdout.read(1)
    return process.pid


def bomb(limit: str) -> None:
    """A fork bomb that refills itself, within ``limit`` processes of another user (RLIMIT_NPROC does not bind root)."""
    if os.getuid() == 0:
        os.setgid(54_321)
        os.setuid(54_321)
    resource.setrlimit(resource.RLIMIT_NPROC, (int(limit), int(limit)))
    say("bomb")
    while True:
        try:
            if os.fork() == 0:
                os.setsid()
        except OSError:
            continue


def main() -> None:
    """Dispatch."""
    name, *arguments = sys.argv[1:]
    {
        "signals": report_signals,
        "lines": read_lines,
        "raw": raw_mode,
        "stubborn": stubborn,
        "tree": tree,
        "bomb": bomb,
    }[name](*arguments)


if __name__ == "__main__":
    main()
