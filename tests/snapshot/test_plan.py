"""What a restore would do, from three sights of a path: before the run, after it, and now."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.snapshot.changes import differences
from docket.snapshot.manifest import Entry, order
from docket.snapshot.plan import Do, Here, Step, Terms, make

TOP = Entry(path=".", kind="dir", mode=0o755)


def file(content: str, path: str = "f", mode: int = 0o644) -> Entry:
    return Entry(path=path, kind="file", mode=mode, size=1, sha256=content * 64, seen="1 1 1 0 0 0 0")


def special(kind: str, path: str = "f") -> Entry:
    return Entry(path=path, kind=kind, mode=0o644)  # type: ignore[arg-type]


def plan(
    before: list[Entry],
    after: list[Entry],
    now: list[Entry],
    *,
    force: bool = False,
    stored: bool = True,
    recorded_end: bool = True,
    own: str | None = None,
    partway: frozenset[str] = frozenset(),
) -> dict[str, Step]:
    """The steps by path, of a tree whose root is unchanged."""
    found = list(differences([TOP, *before], [TOP, *after]))
    standing = {entry.path: entry for entry in [TOP, *now]}
    names: dict[str, set[str]] = {}
    for path in standing:
        if path != ".":
            names.setdefault(path.rpartition("/")[0] or ".", set()).add(path.rpartition("/")[2])
    paths = {each.path for each in found}
    paths |= {path.rpartition("/")[0] or "." for path in paths}
    here = {path: Here(entry=standing.get(path), names=frozenset(names.get(path, ()))) for path in paths}
    terms = Terms(has_content=lambda _: stored, force=force, recorded_end=recorded_end, own=own, partway=partway)
    return {step.path: step for step in make(found, here, terms)}


A, B, C = file("a"), file("b"), file("c")


@pytest.mark.parametrize(
    ("before", "after", "now", "do"),
    [
        (A, B, B, Do.RESTORE),
        (A, B, A, Do.ALREADY),
        (A, B, C, Do.REFUSE),
        (A, B, None, Do.REFUSE),
        (A, None, None, Do.RECREATE),
        (A, None, B, Do.REFUSE),
        (None, B, B, Do.REMOVE),
        (None, B, None, Do.ALREADY),
        (None, B, C, Do.REFUSE),
        (A, special("fifo"), special("fifo"), Do.RECREATE),
        (special("fifo"), None, None, Do.LEAVE),
        (special("fifo"), B, B, Do.LEAVE),
        (A, file("a", mode=0o600), file("a", mode=0o600), Do.RESTORE),
        (A, file("a", mode=0o600), file("a", mode=0o640), Do.REFUSE),
    ],
)
def test_each_row_of_the_table(before: Entry | None, after: Entry | None, now: Entry | None, do: Do) -> None:
    sides = [[entry] if entry is not None else [] for entry in (before, after, now)]
    assert plan(*sides)["f"].do is do


def test_force_turns_a_refusal_of_what_changed_again_and_no_other() -> None:
    assert plan([A], [B], [C], force=True)["f"].do is Do.RESTORE
    assert plan([A], [B], [C], force=True, stored=False)["f"].do is Do.REFUSE
    assert plan([A], [B], [C], force=True, own="f")["f"].do is Do.REFUSE


def test_a_run_without_a_recorded_end_needs_force() -> None:
    assert plan([A], [], [B], recorded_end=False)["f"].do is Do.REFUSE
    assert plan([A], [], [B], recorded_end=False, force=True)["f"].do is Do.RESTORE


def test_what_an_interrupted_restore_had_begun_goes_on() -> None:
    folder = Entry(path="f", kind="dir", mode=0o755)
    made = Entry(path="f", kind="dir", mode=0o700)
    link = Entry(path="f", kind="link", mode=0o777, target="x")
    assert plan([folder], [link], [made])["f"].do is Do.REFUSE
    assert plan([folder], [link], [made], partway=frozenset({"f"}))["f"].do is Do.RESTORE
    assert plan([folder], [link], [], partway=frozenset({"f"}))["f"].do is Do.RECREATE
    assert plan([A], [B], [C], partway=frozenset({"f"}))["f"].do is Do.REFUSE


TREES = st.dictionaries(
    st.sampled_from(["a", "b", "d", "d/x", "d/y"]), st.tuples(st.sampled_from("abc"), st.booleans()), max_size=5
)


def _tree(drawn: dict[str, tuple[str, bool]]) -> list[Entry]:
    """Entries in order; what has something below it is a directory."""
    inner = any(path.startswith("d/") for path in drawn)
    out = {path: file(content, path) for path, (content, _) in drawn.items() if not (inner and path == "d")}
    if inner:
        out["d"] = Entry(path="d", kind="dir", mode=0o755)
    return [out[path] for path in sorted(out, key=order)]


@given(before=TREES, after=TREES, now=TREES, force=st.booleans())
def test_no_plan_ever_touches_what_it_must_not(
    before: dict[str, tuple[str, bool]],
    after: dict[str, tuple[str, bool]],
    now: dict[str, tuple[str, bool]],
    force: bool,
) -> None:
    sides = [_tree(side) for side in (before, after, now)]
    old, new, standing = ({entry.path: entry for entry in side} for side in sides)
    steps = plan(*sides, force=force)
    for path, step in steps.items():
        assert old.get(path) != new.get(path)
        if step.do is Do.REMOVE:
            assert path not in old
        if step.do.acts and not force:
            assert standing.get(path) == new.get(path)
        if step.do.acts and step.now is not None and step.now.kind == "dir" and step.do is not Do.RESTORE:
            inside = [other for other in standing if other.startswith(path + "/")]
            assert all(steps[other].do is Do.REMOVE for other in inside)
