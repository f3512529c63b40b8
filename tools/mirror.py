"""List the modules of docket that have no test file of their own name in the mirrored folder.

``python -m tools.mirror`` prints them. ``tests/unmirrored.txt`` is the list as it stands; ``tests/test_mirror.py`` lets
it only shrink.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
LIST = ROOT / "tests" / "unmirrored.txt"


def unmirrored() -> list[str]:
    """Return the modules without a test file, as paths below ``src/docket``, sorted."""
    source = ROOT / "src" / "docket"
    modules = (path.relative_to(source) for path in source.rglob("*.py") if path.name != "__init__.py")
    return sorted(str(path) for path in modules if not (ROOT / "tests" / path.parent / f"test_{path.name}").exists())


if __name__ == "__main__":
    print("\n".join(unmirrored()))
