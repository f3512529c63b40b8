"""Long JSON keeps its shape and its figures, whatever is cut out of it and however it comes."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from docket.providers.long_text import NUMBERS, STRING, LongText

LEAF = st.one_of(
    st.integers(-(10**6), 10**6),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.none(),
    st.text(max_size=8),
    st.just('long \\" text' * (STRING // 4)),
    st.just([0.125] * NUMBERS),
    st.lists(st.integers(0, 9), min_size=NUMBERS, max_size=2 * NUMBERS),
)
TREES = st.recursive(
    LEAF,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=6), inner, max_size=4)),
    max_leaves=12,
)


class Eager(LongText):
    """Starts cutting at once, so that short texts take the long way."""

    PLAIN = 0
    __slots__ = ()


def skeleton(value: Any) -> Any:
    """The shape of a document: what must survive the cutting."""
    if isinstance(value, dict):
        return {name: skeleton(member) for name, member in value.items()}
    if isinstance(value, list):
        return [skeleton(item) for item in value if isinstance(item, dict | str)]
    return value if not isinstance(value, str) or len(json.dumps(value)) <= STRING else ""  # noqa: TID251


@given(TREES, st.sampled_from([None, 2, 40]), st.data())
@settings(max_examples=300, deadline=None)
def test_what_is_cut_is_still_json_of_the_same_shape(value: Any, indent: int | None, data: st.DataObject) -> None:
    document = {"before": 7, "value": value, "usage": {"prompt_tokens": 12345, "completion_tokens": 6}}
    raw = json.dumps(document, indent=indent, ensure_ascii=data.draw(st.booleans())).encode()  # noqa: TID251
    cuts = sorted(data.draw(st.sets(st.integers(0, len(raw)), max_size=8)))
    text = Eager()
    for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True):
        text.add(raw[a:b])
    taken = text.take()
    assert taken is not None
    kept = json.loads(taken)
    assert (kept["before"], kept["usage"]) == (7, document["usage"])
    if not isinstance(value, list):
        assert skeleton(kept) == skeleton(document)
    assert text.empty


def test_text_beyond_the_limit_is_given_up_and_the_next_is_read() -> None:
    text = LongText()
    text.add(b'{"a":' * (LongText.LIMIT // 2))
    assert text.take() is None
    text.add(b"{}")
    assert text.take() == b"{}"
