"""Writes verify-js/index.html: the page with the verifier in it, one file that works offline.

``python -m tools.verify_page > verify-js/index.html``. A module does not load from a ``file:`` page: those that
``given.mjs`` needs stand inline, in one script, each behind the modules that it imports.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "verify-js"
ENTRY = "given.mjs"
IMPORT = re.compile(r'^import \{[^}]*\} from "\./([a-z_]+\.mjs)";\n', re.MULTILINE)
DECLARED = re.compile(r"^(?:export )?(?:async )?(?:const|let|function|class) (\w+)", re.MULTILINE)


def modules(name: str = ENTRY, found: dict[str, str] | None = None) -> dict[str, str]:
    """Return the text of ``name`` and of the modules that it imports, by name, imported ones first."""
    found = {} if found is None else found
    text = (SOURCE / name).read_text()
    found[name] = ""  # being read: a module that imports it back does not read it again
    for imported in IMPORT.findall(text):
        if imported not in found:
            modules(imported, found)
    del found[name]
    found[name] = text
    return found


def script() -> str:
    """Return the modules as one, without imports and exports."""
    parts = modules()
    declared = [name for text in parts.values() for name in DECLARED.findall(text)]
    twice = {name for name in declared if declared.count(name) > 1}
    assert not twice, f"declared in two modules: {sorted(twice)}"
    plain = [re.sub(r"^export ", "", IMPORT.sub("", text), flags=re.MULTILINE) for text in parts.values()]
    return "\n".join(re.sub(r"\n{3,}", "\n\n", text) for text in plain)


def page() -> str:
    """Return the text of the page."""
    module = script()
    template = (SOURCE / "page.html").read_text()
    assert "</script" not in module, "the script would end its own element"
    assert not re.search(r"^\s*import ", module, re.MULTILINE), "an import that this tool does not know"
    return template.replace("//MODULE//", module.rstrip("\n"))


if __name__ == "__main__":
    sys.stdout.write(page())
