"""Scope: which paths of a tree are watched, which are guarded, and which are left out by rule.

Invariant: what is left out is decided by rules that stood before the run began. A .gitignore that the agent writes
hides nothing, and a ``deny_write`` path is watched whatever ignores it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum

from docket.snapshot.gitignore import Patterns
from docket.snapshot.manifest import ROOT

GIT_RULES = ("**/.git/*", "!**/.git", "!**/.git/hooks", "!**/.git/hooks/**", "!**/.git/config")
"""What is left out of a repository's own directory: its objects and indexes change with every command; its hooks and
its configuration run programs and stay watched."""
MAX_GITIGNORE = 1 << 20
"""Bytes of a .gitignore that are read."""
_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_GIT = Patterns(GIT_RULES)

ReadText = Callable[[], "str | None"]
"""Reads the .gitignore of the directory at hand; None where there is none."""


def rules_above(root: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The .gitignore files between ``root`` and the top of the repository that holds it, nearest first.

    Each with the path of ``root`` below it; none where ``root`` is in no repository, or is its top.
    """
    found: list[tuple[str, tuple[str, ...]]] = []
    below, directory = "", root
    while not os.path.lexists(os.path.join(directory, ".git")):
        above, name = os.path.split(directory)
        if above == directory:
            return ()
        below = f"{name}/{below}" if below else name
        directory = above
        with suppress(OSError):
            fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                if text := read_gitignore(fd):
                    found.append((below, tuple(text.split("\n"))))
            finally:
                os.close(fd)
    return tuple(found)


def read_gitignore(directory: int) -> str | None:
    """The text of the .gitignore in ``directory``, or None; a link is not followed, as git does not either."""
    try:
        fd = os.open(".gitignore", _OPEN, dir_fd=directory)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        return os.fsdecode(os.read(fd, MAX_GITIGNORE))
    except OSError:
        return None
    finally:
        os.close(fd)


class Take(Enum):
    """What the walk does with a path."""

    YES = "yes"
    DESCEND = "descend"
    """Look below for guarded paths only."""
    NO = "no"


@dataclass(frozen=True)
class Ignores:
    """The gitignore rules that apply in one directory, nearest first: (length of the prefix to cut, rules)."""

    lists: tuple[tuple[int, Patterns], ...] = ()

    def below(self, directory: str, patterns: Patterns) -> Ignores:
        """The rules inside ``directory``, which has ``patterns`` of its own."""
        cut = 0 if directory == ROOT else len(directory) + 1
        return Ignores(((cut, patterns), *self.lists)) if patterns else self


@dataclass
class Scope:
    """What ``[files]`` says. ``gitignore`` False watches ignored paths too.

    ``above`` are the rules of directories above the root, outermost last, each with the root's path below it.
    """

    watch: tuple[str, ...] = (ROOT,)
    ignore: tuple[str, ...] = ()
    deny_write: tuple[str, ...] = ()
    gitignore: bool = True
    above: tuple[tuple[str, tuple[str, ...]], ...] = ()
    _frozen: dict[str, Patterns] | None = None
    _known: dict[str, Patterns] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._ignore = Patterns(self.ignore)
        self._deny = Patterns(self.deny_write)
        self._whole = ROOT in self.watch
        self.takes_all = self._whole and not self._ignore and not self.gitignore
        self._above = [(prefix + "/", Patterns(lines)) for prefix, lines in self.above]

    def freeze(self) -> None:
        """From here on .gitignore files are not read again: the rules of the first walk stand."""
        self._frozen = self._known

    def enter(self, directory: str, above: Ignores, read: ReadText) -> Ignores:
        """The rules inside ``directory``; ``read`` is called for its .gitignore at most once over all walks."""
        if not self.gitignore:
            return above
        if self._frozen is not None:
            patterns = self._frozen.get(directory)
            return above if patterns is None else above.below(directory, patterns)
        text = read()
        if text is None:
            return above
        patterns = Patterns(text.split("\n"))
        self._known[directory] = patterns
        return above.below(directory, patterns)

    def guarded(self, path: str, is_dir: bool) -> bool:
        """Whether ``deny_write`` names ``path`` or a directory above it."""
        return bool(self._deny) and self._deny.covers(path, is_dir)

    def take(self, path: str, is_dir: bool, ignores: Ignores, *, guarded_only: bool = False) -> Take:
        """What to do with ``path``; ``guarded_only`` where a directory above it is left out."""
        if not (
            guarded_only
            or (not self._whole and not self._watched(path))
            or self._ignore.verdict(path, is_dir)
            or self._ignored(path, is_dir, ignores)
        ):
            return Take.YES
        if not self._deny:
            return Take.NO
        if self._deny.covers(path, is_dir):
            return Take.YES
        return Take.DESCEND if is_dir else Take.NO

    def _ignored(self, path: str, is_dir: bool, ignores: Ignores) -> bool:
        if not self.gitignore:
            return False
        if ".git" in path and (said := _GIT.verdict(path, is_dir)) is not None:
            return said
        for cut, patterns in ignores.lists:
            said = patterns.verdict(path[cut:], is_dir)
            if said is not None:
                return said
        for prefix, patterns in self._above:
            said = patterns.verdict(prefix + path, is_dir)
            if said is not None:
                return said
        return False

    def _watched(self, path: str) -> bool:
        return any(path == root or path.startswith(root + "/") or root.startswith(path + "/") for root in self.watch)
