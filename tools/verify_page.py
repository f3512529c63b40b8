"""Writes verify-js/index.html: the page with the verifier in it, one file that works offline.

``python -m tools.verify_page > verify-js/index.html``. A module does not load from a ``file:`` page: it stands inline.
"""

from __future__ import annotations

import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "verify-js"


def page() -> str:
    """The text of the page."""
    module = (SOURCE / "verify.mjs").read_text()
    template = (SOURCE / "page.html").read_text()
    assert "</script" not in module, "the module would end its own script element"
    return template.replace("//MODULE//", module.rstrip("\n"))


if __name__ == "__main__":
    sys.stdout.write(page())
