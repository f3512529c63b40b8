"""Tests stand where their module stands: the list of modules without a test file of their own only shrinks."""

from __future__ import annotations

from tools.mirror import LIST, unmirrored


def test_no_module_joins_the_list_of_those_without_a_test_file_of_their_own() -> None:
    new = set(unmirrored()) - set(LIST.read_text().split())
    assert not new, f"give each a tests/<folder>/test_<module>.py: {sorted(new)}"


def test_what_has_a_test_file_by_now_or_is_gone_leaves_the_list() -> None:
    stale = set(LIST.read_text().split()) - set(unmirrored())
    assert not stale, f"take these off {LIST.name}: {sorted(stale)}"
