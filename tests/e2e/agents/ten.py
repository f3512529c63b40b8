"""An agent with a tree of ten processes, three of which call the model for ever.

``ten.py DIRECTORY`` appends one byte to a file of its own in DIRECTORY after each answer that it has received whole;
it says ``ready`` once all ten are there.
"""

from __future__ import annotations

import http.client
import os
import signal
import sys
from collections.abc import Callable
from urllib.parse import urlsplit

BODY = b'{"model":"gpt-4o","messages":[{"role":"user","content":"go on"}]}'


def call_for_ever(directory: str) -> None:
    url = urlsplit(os.environ["OPENAI_BASE_URL"])
    answers = os.open(f"{directory}/{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=30)
    while True:
        try:
            connection.request("POST", f"{url.path}/chat/completions", BODY, {"content-type": "application/json"})
            answer = connection.getresponse()
            whole = answer.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            continue
        if answer.status == 200 and whole:
            os.write(answers, b".")


def wait_for_ever() -> None:
    while True:
        signal.pause()


def start(work: Callable[[], None], *, session: bool, daemon: bool, ready: int) -> None:
    if os.fork():
        return
    if session:
        os.setsid()
    if daemon and os.fork():
        os._exit(0)
    if session:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(ready, b".")
    work()


def main() -> None:
    directory = sys.argv[1]
    reading, writing = os.pipe()
    for number in range(9):
        work = (lambda: call_for_ever(directory)) if number % 4 == 0 else wait_for_ever
        start(work, session=number % 2 == 1, daemon=number % 3 == 2, ready=writing)
    waiting = 9
    while waiting:
        waiting -= len(os.read(reading, waiting))
    os.write(1, b"ready\n")
    wait_for_ever()


main()
