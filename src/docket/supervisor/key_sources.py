"""Finds the keys that docket keeps from the agent, before the agent starts, and where else they could be read.

Invariant: no error and no sentence holds a key or a part of one. What is found is removed from docket's own
environment, also from the bytes that ``/proc/PID/environ`` shows (proc(5)); the rest is looked for, and said.
"""

from __future__ import annotations

import importlib
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from docket.errors import UsageError
from docket.families import FAMILIES
from docket.policy.held_keys import KEY_VARIABLES, Keys
from docket.storage.regular import read_regular

MIN_KEY = 8
"""Characters of a key: a shorter value is a stand-in such as ``ollama``, and stays where it is."""
MAX_KEY = 8192
"""Bytes read of a key: the longest header field that providers take."""
MAX_DOTENV = 1 << 20
"""Bytes read of a ``.env`` file."""
COMMAND_SECONDS = 120
"""How long a command may take: it may ask a person to unlock a vault."""
_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(.*?)\s*")
_COMMENT = re.compile(r"\s+#.*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Keys by variable, and what of their sources the agent could read too."""

    keys: Mapping[str, str] = field(repr=False)
    readable: tuple[str, ...] = ()
    """Sources that are open to every process of the user, for the operator: they may hold a path."""

    def without(self, environ: Mapping[str, str], instead: str | None = None) -> dict[str, str]:
        """Return ``environ`` without the keys: their variables are left out, or hold ``instead``.

        Another variable that holds a key among other text has ``instead`` (or nothing) in the key's place.
        """
        cleaned = {}
        for name, value in environ.items():
            for key in self.keys.values():
                value = value.replace(key, instead or "")
            cleaned[name] = value
        for name in self.keys:
            cleaned.pop(name, None)
            if instead is not None:
                cleaned[name] = instead
        return cleaned


def find(keys: Keys, environ: Mapping[str, str], cwd: Path) -> Found:
    """Read every source. Raises UsageError for one that gives no key, and where two keys cannot be told apart."""
    found: dict[str, str] = {}
    readable: list[str] = []
    for name, value in _dotenv(cwd / keys.dotenv).items():
        found[name] = value
        readable.append(f"{cwd / keys.dotenv} holds {name}")
    own = {name: environ[name] for name in KEY_VARIABLES if len(environ.get(name, "")) >= MIN_KEY}
    found |= {name: _checked(name, value, "docket's environment") for name, value in own.items()}
    for name, place in _named(keys.files):
        found[name] = _checked(name, _read(name, cwd / place), "[keys] files")
        readable.append(f"{cwd / place} holds {name}")
    for name, line in _named(keys.commands):
        found[name] = _checked(name, _printed(name, line, cwd), "[keys] commands")
        readable.append(f"the command of [keys] prints {name}")
    for name, entry in _named(keys.keyring):
        found[name] = _checked(name, _from_keyring(name, entry), "[keys] keyring")
        readable.append(f"the keyring holds {name}")
    _tell_apart(found)
    _check_policy(keys, found)
    return Found(keys=found, readable=tuple(readable))


def check_argv(found: Found, argv: tuple[str, ...]) -> None:
    """Raise UsageError where a command line, which every user of the machine can read, holds a key."""
    for name, key in found.keys.items():
        if any(key in word for word in argv):
            raise UsageError(
                f"--hold-keys: the agent's command line holds the key of {name}",
                hint="leave it out: docket gives the agent a token in that variable, and puts the key in itself",
            )


def forget(found: Found) -> None:
    """Remove the keys from docket's own environment, and from what the kernel shows of it."""
    for name, value in found.without(os.environ).items():
        if os.environ[name] != value:
            os.environ[name] = value
    for name in found.keys:
        os.environ.pop(name, None)
    with suppress(OSError, ValueError, IndexError), open("/proc/self/mem", "r+b", buffering=0) as memory:
        with open("/proc/self/stat", "rb") as file:
            start, end = map(int, file.read().rpartition(b") ")[2].split()[47:49])  # env_start, env_end of proc(5)
        memory.seek(start)
        block = memory.read(end - start)
        for key in found.keys.values():
            block = block.replace(key.encode(), b"\0" * len(key.encode()))
        memory.seek(start)
        memory.write(block)


def shown_in(found: Found) -> list[str]:
    """Look at what ``/proc`` shows of every process, and name those whose environment or arguments hold a key."""
    shown = []
    needles = [key.encode() for key in found.keys.values()]
    with suppress(OSError):
        for pid in sorted(filter(str.isdecimal, os.listdir("/proc")), key=int):
            for part, what in (("environ", "environment"), ("cmdline", "command line")):
                with suppress(OSError), open(f"/proc/{pid}/{part}", "rb") as file:
                    text = file.read(MAX_DOTENV)
                    if any(needle in text for needle in needles):
                        shown.append(f"the {what} of process {pid}")
    return shown


def _named(entries: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for entry in entries:
        name, _, place = entry.partition("=")
        yield name, place.strip()


def _checked(name: str, value: str, where: str) -> str:
    if not MIN_KEY <= len(value) <= MAX_KEY or not value.isascii() or not value.isprintable() or " " in value:
        raise UsageError(
            f"--hold-keys: {where} gives no key for {name}",
            hint=f"a key is one line of {MIN_KEY} to {MAX_KEY} printable ASCII characters without a space",
        )
    return value


def _dotenv(path: Path) -> dict[str, str]:
    """The keys in a ``.env`` file; empty where there is none. Raises UsageError where it cannot be read."""
    try:
        text = read_regular(path, MAX_DOTENV).decode("utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--hold-keys: cannot read {path}", hint="[keys] dotenv names another file") from error
    found = {}
    for match in filter(None, map(_LINE.fullmatch, text.splitlines())):
        name, value = match[1], match[2]
        quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
        value = value[1:-1] if quoted else _COMMENT.sub("", value)
        if name in KEY_VARIABLES and len(value) >= MIN_KEY:
            found[name] = _checked(name, value, str(path))
    return found


def _read(name: str, path: Path) -> str:
    try:
        return read_regular(path, MAX_KEY).decode("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise UsageError(f"--hold-keys: cannot read the key file {path} for {name}: {why}") from error


def _printed(name: str, line: str, cwd: Path) -> str:
    try:
        done = subprocess.run(shlex.split(line), cwd=cwd, stdout=subprocess.PIPE, timeout=COMMAND_SECONDS, check=False)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        why = getattr(error, "strerror", None) or "it took too long, or its quotes do not match"
        raise UsageError(f"--hold-keys: the command of [keys] for {name} cannot be run: {why}") from None
    if done.returncode != 0:
        raise UsageError(f"--hold-keys: the command of [keys] for {name} ended with status {done.returncode}")
    return done.stdout.decode("utf-8", "replace").strip()


def _from_keyring(name: str, entry: str) -> str:
    service, _, user = entry.rpartition("/")
    try:
        keyring = importlib.import_module("keyring")
    except ImportError as error:
        raise UsageError(
            f"--hold-keys: the key of {name} is in the keyring, and the package keyring is not installed",
            hint="install keyring beside docket, or name a file or a command in [keys]",
        ) from error
    try:
        value = keyring.get_password(service, user)
    except Exception as error:  # noqa: BLE001 (whatever a backend raises; its text may quote what it read)
        raise UsageError(f"--hold-keys: the keyring cannot be asked for {name} ({type(error).__name__})") from None
    return value if isinstance(value, str) else ""


def _tell_apart(found: Mapping[str, str]) -> None:
    """Raise UsageError where two variables whose keys travel in one field hold different ones."""
    for family in FAMILIES:
        by_field: dict[bytes, str] = {}
        for name, sent in family.key_fields:
            other = by_field.setdefault(sent, name)
            if name in found and other in found and found[name] != found[other]:
                raise UsageError(
                    f"--hold-keys: {other} and {name} hold different keys, and the agent's token stands for both",
                    hint=f"unset one of them; both are for {family.vendor}",
                )


def _check_policy(keys: Keys, found: Mapping[str, str]) -> None:
    for name, key in found.items():
        if any(key in entry for entries in (keys.files, keys.commands, keys.keyring) for entry in entries):
            raise UsageError(
                f"--hold-keys: [keys] holds the key of {name} itself, and the policy is part of the record",
                hint="name a file, a command or an entry of the keyring that gives it",
            )
