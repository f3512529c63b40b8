"""A signed checkpoint is removed, doubled, changed, or taken from another run."""

from __future__ import annotations

import re
from collections.abc import Iterator

from conformance.attacks.attack import Attack, Runs


def attacks(runs: Runs) -> Iterator[Attack]:
    """Every note of the file in turn."""
    plain = runs.plain
    notes = [note + b"=\n" for note in re.split(rb"=\n(?=docket/)", plain["checkpoints"].removesuffix(b"=\n"))]
    assert b"".join(notes) == plain["checkpoints"]

    def attack(name: str, changed: list[bytes], check: str, verdict: str = "failed") -> Attack:
        return Attack(f"checkpoints: {name}", {**plain, "checkpoints": b"".join(changed)}, check, verdict)

    for number, note in enumerate(notes):
        lines = note.split(b"\n")

        def changed(at: int, line: bytes, number: int = number, lines: list[bytes] = lines) -> list[bytes]:
            return [*notes[:number], b"\n".join([*lines[:at], line, *lines[at + 1 :]]), *notes[number + 1 :]]

        last = number == len(notes) - 1
        left = [*notes[:number], *notes[number + 1 :]]
        if last:
            yield attack(f"note {number} removed", left, "checkpoints.last")
        else:
            yield attack(f"note {number} removed", left, "", "verified")
        yield attack(f"note {number} doubled", [*notes[:number], note, *notes[number:]], "checkpoints.order")
        origin = b"docket/DKT-20261201-0000000000"
        other = changed(0, origin)
        yield attack(f"note {number} of another docket", other, "checkpoints.form")  # its signature names this one
        both = [*notes[:number], note.replace(lines[0], origin), *notes[number + 1 :]]
        yield attack(f"note {number} of another docket, its signature too", both, "checkpoints.order")
        yield attack(f"note {number} over no event", changed(1, b"0"), "checkpoints.order")
        # beyond the receipt: neither it nor what follows is read (P-4), so the note that the receipt quotes is missing
        yield attack(f"note {number} over events that are not there", changed(1, b"99"), "checkpoints.last")
        yield attack(f"note {number} with another root", changed(2, b"A" * 43 + b"="), "checkpoints.root")
        yield attack(f"note {number} that tells of losses", changed(3, b"lost 5"), "checkpoints.signature")
        yield attack(f"note {number} without its losses", changed(3, b""), "checkpoints.form")
        yield attack(f"note {number} with a short signature", changed(5, lines[5][:-8]), "checkpoints.form")
    yield attack("notes in reverse", notes[::-1], "checkpoints.order")
    yield Attack(
        "checkpoints: of another run", {**plain, "checkpoints": runs.signed["checkpoints"]}, "checkpoints.order"
    )
    yield attack("emptied", [], "checkpoints.last")
    yield attack("bytes of no note behind the last", [*notes, b"x\n"], "checkpoints.last")
