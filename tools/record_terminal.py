"""Record an interactive agent under docket in a real terminal: ``docs/terminal-session.cast`` and the text of it.

``make terminal-session``. A scripted person types into an interactive bash on a pseudo-terminal;
what the screen received is written as asciicast version 2 (https://docs.asciinema.org/manual/asciicast/v2/) and,
without timing and control sequences, as a text block that stands in docs/supervision.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
import tempfile
from pathlib import Path

from docket.clock import SystemClock
from kit.pseudoterminal import PseudoTerminal

ROOT = Path(__file__).parents[1]
AGENT = r"""
trap 'echo; echo "agent: interrupted, going on"' INT
trap 'echo "agent: back in the foreground"' CONT
echo "agent: hello, tell me something (q ends)"
while printf '> ' && { read -r line || [ -n "$line" ] || :; }; do
  [ "$line" = q ] && exit 0
  [ -n "$line" ] && echo "agent: you said \"$line\""
done
"""
COLUMNS, ROWS = 110, 30


class Recording(PseudoTerminal):
    """A pseudo-terminal that remembers when the screen received what."""

    def __init__(self, argv: list[str], env: dict[str, str], cwd: str) -> None:
        self.clock = SystemClock()
        self.started = self.clock.monotonic_us()
        self.events: list[tuple[float, str]] = []
        super().__init__(argv, env=env, cwd=cwd, size=(ROWS, COLUMNS))

    def received(self, data: bytes) -> None:
        seconds = (self.clock.monotonic_us() - self.started) / 1e6
        self.events.append((round(seconds, 3), data.decode("utf-8", "replace")))


def play(terminal: Recording) -> None:
    """What the person does: talk, Ctrl-C twice, Ctrl-Z, something else, ``fg``, and the end; then the receipt."""
    terminal.expect(r"\$ ")
    terminal.send("docket run --label session -- sh agent.sh\n")
    terminal.expect("> ")
    terminal.send("good morning\n")
    terminal.expect("you said")
    for _ in range(2):
        terminal.send("\x03")
        terminal.expect("interrupted, going on")
        terminal.expect("> ")
    terminal.send("\x1a")
    terminal.expect("Stopped")
    terminal.send("jobs | cut -c-50\n")
    terminal.expect(r"Stopped.*\r\n")
    terminal.expect(r"\$ ")
    terminal.send("fg\n")
    terminal.expect("back in the foreground")
    terminal.expect("> ")
    terminal.send("q\n")
    terminal.expect("receipt: ")
    terminal.expect(r"\$ ")
    terminal.send("echo status $?; docket verify .docket/latest | head -1; exit\n")
    terminal.expect("verified")
    terminal.expect("exit")


def plain(text: str) -> str:
    """The screen as lines of text: no carriage returns, no control sequences."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r\n", "\n").replace("\r", "")
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def main() -> None:
    """Record and write both files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "docs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "agent.sh").write_text(AGENT)
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        env = {"PATH": path, "PS1": "$ ", "TERM": "dumb", "HOME": directory, "HISTFILE": "", "INPUTRC": "/dev/null"}
        terminal = Recording(["bash", "--norc", "--noprofile", "-i"], env, directory)
        try:
            play(terminal)
            terminal.process.wait(20)
        finally:
            terminal.close()
    head = {"version": 2, "width": COLUMNS, "height": ROWS, "title": "docket run: an interactive agent", "env": {}}
    lines = [head, *([seconds, "o", text] for seconds, text in terminal.events)]
    cast = "".join(json.dumps(line) + "\n" for line in lines)  # noqa: TID251 (asciicast has fractions of seconds)
    text = plain("".join(text for _, text in terminal.events))
    for name, content in (("terminal-session.cast", cast), ("terminal-session.txt", text)):
        (options.out / name).write_text(content.replace(shlex.quote(directory), "~").replace(directory, "~"))
    print(text)


if __name__ == "__main__":
    main()
