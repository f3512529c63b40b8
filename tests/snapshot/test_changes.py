"""How two manifests differ."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from docket.snapshot.changes import Difference, differences, name, pair_renames
from docket.snapshot.manifest import Entry, order

TOP = Entry(path=".", kind="dir", mode=0o755)


def file(path: str, content: str = "a", mode: int = 0o644, size: int = 1) -> Entry:
    return Entry(path=path, kind="file", mode=mode, size=size, sha256=content * 64)


def folder(path: str, gap: str | None = None) -> Entry:
    return Entry(path=path, kind="dir", mode=0o755, gap=gap)


ENTRIES = st.dictionaries(
    st.sampled_from(["a", "b", "a-b", "c", "ü"]),
    st.tuples(st.sampled_from("abc"), st.sampled_from([0o644, 0o600])),
    max_size=5,
).map(lambda found: [TOP, *(file(path, *found[path]) for path in sorted(found, key=order))])


@given(before=ENTRIES, after=ENTRIES)
def test_every_difference_is_named_once_and_nothing_else(before: list[Entry], after: list[Entry]) -> None:
    found = list(differences(before, after))
    old, new = {entry.path: entry for entry in before}, {entry.path: entry for entry in after}
    assert [each.path for each in found] == sorted(
        (path for path in old.keys() | new.keys() if old.get(path) != new.get(path)), key=order
    )
    for each in found:
        assert (each.before, each.after) == (old.get(each.path), new.get(each.path))


@given(before=ENTRIES, after=ENTRIES)
def test_renames_account_for_the_same_paths(before: list[Entry], after: list[Entry]) -> None:
    plain = [name(each) for each in differences(before, after)]
    paired = pair_renames(plain)
    told = [change.path for change in paired] + [change.origin for change in paired if change.origin is not None]
    assert sorted(told) == sorted(change.path for change in plain)
    for change in paired:
        if change.change == "renamed":
            assert change.before is not None
            assert change.after is not None
            assert change.before.sha256 == change.after.sha256


def test_each_kind_of_change_has_its_name() -> None:
    link = Entry(path="f", kind="link", mode=0o777, target="x")
    names = {
        "added": (None, file("f")),
        "removed": (file("f"), None),
        "modified": (file("f"), file("f", "b")),
        "mode": (file("f"), file("f", mode=0o600)),
        "type": (file("f"), link),
    }
    for expected, (before, after) in names.items():
        assert name(Difference(path="f", before=before, after=after)).change == expected


def test_empty_files_are_not_called_renamed() -> None:
    changes = [name(each) for each in differences([TOP, file("a", size=0)], [TOP, file("b", size=0)])]
    assert [change.change for change in pair_renames(changes)] == ["removed", "added"]


def test_below_a_directory_that_could_not_be_read_nothing_is_called_removed() -> None:
    found = list(differences([TOP, folder("d"), file("d/x")], [TOP, folder("d", gap="unreadable")]))
    assert [(each.path, each.unknown) for each in found] == [("d/x", True)]
