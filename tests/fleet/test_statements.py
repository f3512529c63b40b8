"""Every statement is understood by both engines."""

from __future__ import annotations

from collections.abc import Callable

from docket.fleet import statements
from docket.fleet.store import Store

STATEMENTS = {
    name: text
    for name, text in vars(statements).items()
    if name.isupper() and not name.startswith("_") and isinstance(text, str)
}


def test_every_statement_is_understood_by_the_engine(opened: Callable[[], Store]) -> None:
    store = opened()
    with store._database.transaction() as tx:
        for name, text in STATEMENTS.items():
            if store.kind == "postgresql":
                types = ", ".join(["unknown"] * text.count("?"))
                for at in range(text.count("?")):
                    text = text.replace("?", f"${at + 1}", 1)
                tx.run(f"PREPARE s_{name} {f'({types})' if types else ''} AS {text}")
            else:
                tx.rows(f"EXPLAIN {text}", *[None] * text.count("?"))
    assert len(STATEMENTS) > 20
