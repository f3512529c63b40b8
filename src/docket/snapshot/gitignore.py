"""Patterns as gitignore(5) defines them: parsing, matching, and the verdict of a list of them.

Owns no files: it is told lines and paths. The oracle of its tests is ``git check-ignore``. Not supported, and not
needed here: ``core.ignoreCase`` and what git's index says of tracked files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

MAX_PATTERNS = 10_000
"""Patterns of one list: more is a file made to be slow."""
MAX_PATTERN = 4096
"""Characters of one pattern: PATH_MAX."""
_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "\\x21-\\x7e",
    "lower": "a-z",
    "print": "\\x20-\\x7e",
    "punct": "!-/:-@\\[-`{-~",
    "space": " \\t\\n\\r\\f\\v",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}
_NEVER = "(?!)"


@dataclass(frozen=True, slots=True)
class Rule:
    """One pattern: ``expression`` matches a whole path relative to the list's directory."""

    expression: str
    negated: bool
    directories_only: bool


def parse(line: str) -> Rule | None:
    """The rule of one line of a .gitignore, or None for a blank line, a comment, or what git ignores too."""
    if len(line) > MAX_PATTERN or line.startswith("#"):
        return None
    text = _strip_trailing_spaces(line)
    negated = text.startswith("!")
    text = text[1:] if negated else text
    directories_only = text.endswith("/")
    text = text[:-1] if directories_only else text
    if not text:
        return None
    anchored = "/" in text
    text = text.removeprefix("/")
    try:
        body = _translate(text) if anchored else f"(?:[^/]+/)*{_translate_name(text)}"
        re.compile(body)
    except (ValueError, re.error):
        body = _NEVER
    return Rule(body, negated, directories_only)


class Patterns:
    """A list of rules, of which the last one that matches decides."""

    __slots__ = ("_any", "_rules", "sound")

    def __init__(self, lines: Iterable[str]) -> None:
        rules = [rule for rule in (parse(line) for line in lines) if rule is not None][:MAX_PATTERNS]
        self.sound = bool(rules) and all(rule.expression != _NEVER for rule in rules)
        """Whether every line is a pattern that can match."""
        self._rules = [(re.compile(rule.expression, re.DOTALL), rule) for rule in reversed(rules)]
        self._any = re.compile("|".join(f"(?:{rule.expression})" for rule in rules) or _NEVER, re.DOTALL)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def verdict(self, path: str, is_dir: bool) -> bool | None:
        """True: ignored; False: included again by ``!``; None: no rule speaks of ``path`` (relative, no ``/`` at
        its ends)."""
        if self._any.fullmatch(path) is None:
            return None
        for expression, rule in self._rules:
            if (is_dir or not rule.directories_only) and expression.fullmatch(path):
                return not rule.negated
        return None

    def covers(self, path: str, is_dir: bool) -> bool:
        """Whether ``path`` or a directory above it is matched and not included again."""
        parts = path.split("/")
        above = ("/".join(parts[:count]) for count in range(1, len(parts)))
        return any(self.verdict(directory, True) for directory in above) or bool(self.verdict(path, is_dir))


def _strip_trailing_spaces(line: str) -> str:
    text = line.removesuffix("\n").removesuffix("\r")
    while text.endswith(" "):
        slashes = len(text[:-1]) - len(text[:-1].rstrip("\\"))
        if slashes % 2:
            break
        text = text[:-1]
    return text


def _translate(pattern: str) -> str:
    """A pattern with slashes: ``**`` as a whole component crosses directories.

    Each run of components behind a ``**`` is taken where it first fits, atomically: enough for a glob, and a hostile
    pattern cannot make the match slow.
    """
    runs: list[list[str]] = [[]]
    for part in _components(pattern):
        if part == "**":
            runs.append([])
        else:
            runs[-1].append(_translate_name(part))
    out = "".join(f"{part}/" for part in runs[0]) if len(runs) > 1 else "/".join(runs[0])
    for run in runs[1:-1]:
        if run:
            out += f"(?>(?:[^/]+/)*?{'/'.join(run)}/)"
    if len(runs) > 1:
        out += f"(?:[^/]+/)*{'/'.join(runs[-1])}" if runs[-1] else ".+"
    return out


def _components(pattern: str) -> list[str]:
    """``pattern`` cut at its slashes, an escaped one included; one inside brackets cuts nothing."""
    parts, position = [""], 0
    while position < len(pattern):
        end = position + 1
        if pattern[position] == "[":
            _, end = _translate_class(pattern, end)
        elif pattern[position] == "\\":
            end += 1
        piece = pattern[position:end]
        position = end
        if piece in ("/", "\\/"):
            parts.append("")
        else:
            parts[-1] += piece
    return parts


def _translate_name(part: str) -> str:
    """A pattern of one component: ``*``, ``?``, ``[...]`` and backslashes, without backtracking over stars."""
    runs, position = [""], 0
    while position < len(part):
        character = part[position]
        position += 1
        if character == "*":
            runs.append("")
        elif character == "?":
            runs[-1] += "[^/]"
        elif character == "[":
            expression, position = _translate_class(part, position)
            runs[-1] += expression
        elif character == "\\":
            if position == len(part):
                raise ValueError("a backslash escapes nothing")
            runs[-1] += re.escape(part[position])
            position += 1
        else:
            runs[-1] += re.escape(character)
    middle = "".join(f"(?>[^/]*?{run})" for run in runs[1:-1] if run)
    return runs[0] + middle + (f"[^/]*{runs[-1]}" if len(runs) > 1 else "")


def _translate_class(part: str, position: int) -> tuple[str, int]:
    """A bracket expression that begins before ``position``; returns it and the position after it."""
    negated = part[position : position + 1] in ("!", "^")
    position += negated
    members, first = [], True
    while True:
        character = part[position : position + 1]
        if character == "":
            raise ValueError("a bracket is not closed")
        if character == "]" and not first:
            break
        first = False
        if part.startswith("[:", position) and (end := part.find(":]", position + 2)) >= 0:
            members.append(_CLASSES.get(part[position + 2 : end], ""))
            if not members[-1]:
                raise ValueError("no such class")
            position = end + 2
            continue
        low, position = _class_member(part, position)
        if part[position : position + 1] == "-" and part[position + 1 : position + 2] not in ("", "]"):
            high, position = _class_member(part, position + 1)
            members.append(f"{re.escape(low)}-{re.escape(high)}" if low <= high else "")
        else:
            members.append(re.escape(low))
    body = "".join(members)
    if not body:
        return ("[^/]" if negated else _NEVER), position + 1
    return f"(?!/)[{'^' if negated else ''}{body}]", position + 1


def _class_member(part: str, position: int) -> tuple[str, int]:
    if part[position] == "\\":
        position += 1
        if position == len(part):
            raise ValueError("a backslash escapes nothing")
    return part[position], position + 1
