"""What may be printed: no control character, no reordering and no invisible one, and JSON of the same value."""

from __future__ import annotations

import json
import unicodedata

import orjson
from hypothesis import given
from hypothesis import strategies as st

from docket.primitives.printable import one_line, printable, printable_json

BIDIRECTIONAL = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""The bidirectional controls of Unicode (UAX 9, section 2)."""
HIDDEN = "".join(map(chr, [*range(0x20), *range(0x7F, 0xA0)])) + BIDIRECTIONAL + "\u2028\u2029\ufeff\u200b"
ANY = st.text(alphabet=st.one_of(st.characters(), st.sampled_from(HIDDEN)))
JSON = st.recursive(st.one_of(st.none(), st.integers(-(2**53), 2**53), ANY), lambda inner: st.dictionaries(ANY, inner))


def hidden_in(text: str) -> set[str]:
    return {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") or c in HIDDEN}


@given(ANY)
def test_nothing_hidden_is_in_what_is_printed(text: str) -> None:
    assert hidden_in(printable(text)) <= {"\n"}
    assert hidden_in(one_line(text)) == set()
    assert len(one_line(text)) == len(text)


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "S"])))
def test_letters_of_every_script_are_printed_as_they_are(text: str) -> None:
    assert one_line(text) == text


@given(JSON)
def test_json_for_a_terminal_has_the_same_value_and_nothing_hidden(value: object) -> None:
    try:
        data = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    except TypeError:  # lone surrogates are no JSON of docket's
        return
    shown = printable_json(data)
    assert hidden_in(shown) <= {"\n"}
    assert json.loads(shown) == json.loads(data)
