"""Show the fragments of changes/ as the changelog's next section. Use: ``python -m tools.changelog``.

One user-visible change is one file, ``changes/<what>.md``: one to four lines of Markdown, written for a user. At a
release they move into CHANGELOG.md and the directory is emptied.
"""

from __future__ import annotations

from pathlib import Path

CHANGES = Path(__file__).parents[1] / "changes"


def section(directory: Path = CHANGES) -> str:
    """The fragments of ``directory``, by name, as a Markdown list."""
    fragments = sorted(directory.glob("*.md"))
    return "\n".join("- " + "\n  ".join(path.read_text().strip().splitlines()) for path in fragments)


if __name__ == "__main__":
    print(section())
