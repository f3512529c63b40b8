"""Deciding members that two readers of JSON could read differently are found, and nothing else is."""

from __future__ import annotations

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docket.providers.deciding import DECIDING, ambiguity

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5), lambda v: st.lists(v, max_size=3)
)
PLAIN = st.dictionaries(st.sampled_from(["model", "max_tokens", "stream", "messages", "temperature"]), VALUES)


def found(body: bytes) -> str | None:
    return ambiguity(body, orjson.loads(body))


def spelt(name: str, escaped: int) -> str:
    """``name`` as a JSON string, some of its characters escaped."""
    at = escaped % (len(name) + 1)
    return '"' + "".join(f"\\u{ord(c):04x}" if i == at else c for i, c in enumerate(name)) + '"'


def written(members: list[tuple[str, object]], escaped: int) -> bytes:
    pairs = (f"{spelt(name, escaped)}: {json.dumps(value)}" for name, value in members)  # noqa: TID251 a client's own
    return ("{" + ", ".join(pairs) + "}").encode()


@given(PLAIN, st.booleans())
def test_a_body_in_which_each_name_stands_once_is_not_ambiguous(body: dict[str, object], spaced: bool) -> None:
    written = json.dumps(body).encode() if spaced else orjson.dumps(body)  # noqa: TID251 a client's own
    assert found(written) is None


@given(PLAIN, st.sampled_from(sorted(DECIDING)), VALUES, VALUES, st.integers(0, 30), st.booleans())
def test_a_deciding_name_given_twice_is_found_wherever_it_stands_and_however_it_is_spelt(
    body: dict[str, object], name: str, one: object, other: object, escaped: int, first: bool
) -> None:
    body.pop(name, None)
    rest = list(body.items())
    members = [(name, one), *rest, (name, other)] if first else [*rest, (name, one), (name, other)]
    assert found(written(members, escaped)) is not None


@given(st.sampled_from(sorted(DECIDING)), st.integers(0, 30))
def test_a_deciding_name_in_other_letters_is_found(name: str, at: int) -> None:
    at %= len(name)
    changed = name[:at] + name[at].swapcase() + name[at + 1 :]
    if changed != name and changed not in DECIDING:
        assert found(orjson.dumps({"messages": [], changed: "x"})) == changed


@pytest.mark.parametrize("spaced", [b"", b" "])
@pytest.mark.parametrize("depth", [200, 300, 900, 1000])
def test_a_depth_is_read_or_called_ambiguous_and_never_raises(depth: int, spaced: bytes) -> None:
    name = found(b'{"a":' + spaced + b"[" * depth + b"]" * depth + b"}")
    assert name is None or "depth" in name


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b'{"generationConfig": {"maxOutputTokens": 1, "maxOutputTokens": 64000}}', "maxOutputTokens"),
        (b'{"options": {"num_predict": 1, "num_predict": 2}}', "num_predict"),
        (b'{"model": "a", "fallbacks": [{"model": "b", "model": "c"}]}', "model"),
        (b'{"model": "a", "tools": [{"type": "x", "type": "y"}]}', "type"),
        (b'{"\\u017ftream": true}', "\u017ftream"),
        (b'{"n": "5"}', "n"),
        (b'{"n": 2.5}', "n"),
        (b'{"model": "a", "messages": [{"content": "a", "content": "b"}], "metadata": {"model": 1, "model": 2}}', None),
        (b'{"model": "a", "max_tokens": 1.0}', None),
    ],
)
def test_what_decides_and_what_does_not(body: bytes, name: str | None) -> None:
    assert found(body) == name


class Said(list[tuple[str, object]]):
    """An object as Python's own reader finds it: every member, in order."""


def more_than_once(value: object) -> set[str]:
    """The names that stand twice in one object of ``value``, anywhere."""
    found: set[str] = set()
    pending = [value]
    for each in pending:
        if isinstance(each, Said):
            names = [name for name, _ in each]
            found |= {name for name in names if names.count(name) > 1}
            pending += [inner for _, inner in each]
        elif isinstance(each, list):
            pending += each
    return found


NAMES = st.sampled_from(["model", "n", "a", "url", "tools", "Model", 'q":"', "\\", "\u00e9", ":"])
TEXTS = st.sampled_from(["", ":", '":', '\\"', "{}", "\u00e9", "\n", "plain: text"])
SPACE = st.sampled_from(["", " ", "\n", "\t "])


@st.composite
def spellings(draw: st.DrawFn, depth: int = 0) -> str:
    """A JSON text as some client may write it: spaces, escapes, names given twice."""
    kind = draw(st.integers(0, 5 if depth < 3 else 3))
    if kind == 0:
        return draw(st.sampled_from(["1", "1.50", "-0", "1e2", "true", "null"]))
    if kind < 4:
        return json.dumps(draw(TEXTS), ensure_ascii=draw(st.booleans()))  # noqa: TID251 a client's own
    space = draw(SPACE)
    if kind == 4:
        return "[" + ("," + space).join(draw(st.lists(spellings(depth + 1), max_size=3))) + "]"
    return draw(objects(depth + 1))


@st.composite
def objects(draw: st.DrawFn, depth: int = 0) -> str:
    space = draw(SPACE)
    members = draw(st.lists(st.tuples(NAMES, spellings(depth + 1)), max_size=4))
    named = [(spelt(name, draw(st.integers(0, 9))) if name.isalpha() else json.dumps(name), v) for name, v in members]  # noqa: TID251
    spelled = [f"{space}{name}{space}:{value}" for name, value in named]
    return "{" + ",".join(spelled) + space + "}"


@given(objects())
def test_names_given_twice_are_found_as_by_reading_every_member(text: str) -> None:
    """However it is written: what stands twice is what a reader finds that keeps every member."""
    repeated: set[str] = set()
    verdict = ambiguity(text.encode(), orjson.loads(text), repeated)
    twice = more_than_once(json.loads(text, object_pairs_hook=Said))
    assert repeated == twice
    if not twice:
        assert verdict == ambiguity(orjson.dumps(orjson.loads(text)), orjson.loads(text))
