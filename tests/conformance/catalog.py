"""The catalogue of vectors: every scenario by name, with the answer that it must get.

A generator returns the files as a stranger would receive them; ``spec/vectors`` holds the same bytes, committed.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kit.recordings import Files

ROOT = Path(__file__).resolve().parents[2]
VECTORS = ROOT / "spec" / "vectors"


@dataclass(frozen=True)
class Vector:
    """One scenario."""

    name: str
    """``<area>/<nnn-phrase>``."""
    verdict: str
    check: str
    """The first failing check, "" if none fails."""
    rules: str
    comment: str
    make: Callable[[], Files]
    path: str = "."
    """What to verify, from the vector's directory."""
    args: tuple[str, ...] = ()
    """Further arguments of the call."""

    def expect(self) -> bytes:
        """The text of ``expect.toml``."""
        lines = [
            f'verdict = "{self.verdict}"',
            f'check = "{self.check}"',
            f'rules = "{self.rules}"',
            f'comment = "{self.comment}"',
        ]
        if self.path != ".":
            lines.append(f'path = "{self.path}"')
        if self.args:
            lines.append(f"args = [{', '.join(f'{chr(34)}{arg}{chr(34)}' for arg in self.args)}]")
        return ("\n".join(lines) + "\n").encode()

    def files(self) -> Files:
        """Everything in the vector's directory."""
        return {**self.make(), "expect.toml": self.expect()}


_areas: dict[str, list[Vector]] = {}


def vector(
    area: str,
    phrase: str,
    verdict: str,
    check: str = "",
    *,
    rules: str,
    comment: str,
    path: str = ".",
    args: tuple[str, ...] = (),
) -> Callable[[Callable[[], Files]], Callable[[], Files]]:
    """Put a generator into the catalogue; vectors of an area are numbered in the order of their generators."""

    def register(make: Callable[[], Files]) -> Callable[[], Files]:
        vectors = _areas.setdefault(area, [])
        assert verdict == "failed" or not check
        assert all(each.name != f"{area}/{number:03}-{phrase}" for number, each in enumerate(vectors, 1)), phrase
        assert '"' not in comment
        name = f"{area}/{len(vectors) + 1:03}-{phrase}"
        vectors.append(Vector(name, verdict, check, rules, comment, make, path, args))
        return make

    return register


@cache
def catalogue() -> tuple[Vector, ...]:
    """Every vector, by name."""
    from conformance import generators

    for module in sorted(each.name for each in pkgutil.iter_modules(generators.__path__)):
        importlib.import_module(f"conformance.generators.{module}")
    return tuple(sorted((each for vectors in _areas.values() for each in vectors), key=lambda each: each.name))
