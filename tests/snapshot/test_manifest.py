"""Manifests: one spelling of every entry, one order, and a reader that takes nothing else."""

from __future__ import annotations

import io
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.errors import FormatError
from docket.snapshot.manifest import (
    Entry,
    Header,
    Reader,
    file_line_without_digest,
    from_line,
    order,
    text_from_json,
    text_to_json,
    to_line,
)

HEADER = Header(root="/work", device=1, inode=2, taken_ns=3, stored=True)
TOP = Entry(path=".", kind="dir", mode=0o755)
NAME = st.binary(min_size=1, max_size=8).filter(lambda raw: b"/" not in raw and b"\0" not in raw and raw.strip(b"."))
PATH = st.lists(NAME.map(os.fsdecode), min_size=1, max_size=4).map("/".join)
SEEN = "1 2 1 0 0 5 6"


@given(path=PATH, mode=st.integers(0, 0o7777), size=st.integers(0, 2**50))
def test_every_file_has_one_line_that_reads_back(path: str, mode: int, size: int) -> None:
    entry = Entry(path=path, kind="file", mode=mode, size=size, sha256="a" * 64, seen=SEEN)
    line = to_line(entry)
    assert from_line(line[:-1]) == entry
    head, tail = file_line_without_digest(path, mode, size, SEEN)
    assert head + b"a" * 64 + tail == line


@given(raw=st.binary(min_size=1).filter(lambda raw: b"\0" not in raw))
def test_any_name_reads_back_from_json(raw: bytes) -> None:
    assert text_from_json(text_to_json(os.fsdecode(raw))) == os.fsdecode(raw)


@given(paths=st.sets(PATH, max_size=12))
def test_the_order_puts_a_directory_right_before_its_content(paths: set[str]) -> None:
    ordered = sorted(paths, key=order)
    for index, path in enumerate(ordered):
        inside = [other for other in ordered if other.startswith(path + "/")]
        assert ordered[index + 1 : index + 1 + len(inside)] == inside


@pytest.mark.parametrize(
    "line",
    [
        b"{}",
        b'{"entry":{"kind":"dir","mode":493,"path":"a"},"seen":"1 2 1 0 0 5 6","x":1}',
        b'{"entry":{"kind":"dir","mode":493,"path":"a"},"seen":"1 2 1 0 0 5"}',
        b'{"entry":{"kind":"door","mode":493,"path":"a"},"seen":"1 2 1 0 0 5 6"}',
        b'{"entry":{"kind":"dir","mode":99999,"path":"a"},"seen":"1 2 1 0 0 5 6"}',
        b'{"entry":{"kind":"dir","mode":true,"path":"a"},"seen":"1 2 1 0 0 5 6"}',
        b'{"entry":{"kind":"file","mode":420,"path":"a","size":1},"seen":"1 2 1 0 0 5 6"}',
        b'{"entry":{"kind":"file","mode":420,"path":"a","sha256":"AB","size":1},"seen":"1 2 1 0 0 5 6"}',
        b'{"entry":{"kind":"link","mode":511,"path":"a"},"seen":"1 2 1 0 0 5 6"}',
        b'{"entry":{"kind":"dir","mode":493,"path":"a","target":"b"},"seen":"1 2 1 0 0 5 6"}',
        b'{"entry":{"kind":"dir","mode":493,"path":{"base64":"YQ==","sha256":"x"}},"seen":"1 2 1 0 0 5 6"}',
        b'{"seen":"1 2 1 0 0 5 6","entry":{"kind":"dir","mode":493,"path":"a"}}',
    ],
)
def test_a_line_that_is_no_entry_is_refused(line: bytes) -> None:
    with pytest.raises(FormatError):
        from_line(line)


def test_a_manifest_that_names_what_it_has_no_directory_for_is_refused() -> None:
    data = HEADER.to_line() + to_line(TOP) + to_line(Entry(path="a/b", kind="dir", mode=0o755))
    with pytest.raises(FormatError, match="without its directory"):
        list(Reader(io.BytesIO(data)))


def test_the_digest_of_the_tree_does_not_depend_on_when_it_was_read() -> None:
    digests = set()
    for seen in ("1 2 1 0 0 5 6", "9 9 1 0 0 9 9"):
        reader = Reader(io.BytesIO(HEADER.to_line() + to_line(Entry(path=".", kind="dir", mode=0o755, seen=seen))))
        list(reader)
        digests.add(reader.totals().tree)
    assert len(digests) == 1
