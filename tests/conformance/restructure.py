"""Changes that know how documents are built: members moved, nested, doubled, swapped, renamed, sealed."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

from docket.errors import DocketError
from docket.primitives.canonical import decode_object, encode

Documents = dict[str, list[Any]]
Place = tuple[Any, Any]
"""The object or list that holds a value, and its name or index there."""
NAMES = (
    "private", "hash", "prev", "seq", "data", "type", "usage", "items", "cost_usd", "event", "proof", "end", "starts",
    "rows", "checkpoint", "ledger", "totals", "session", "format", "signatures", "__proto__", "0", "value", "salt",
)  # fmt: skip
COMMITMENT = {"commitment": "0" * 64}
SPELLED = 4096
"""Characters of a value that is spelled as it is no text: escapes of escapes would double it each time."""
DEEPEST = 40
"""Levels below which nothing more is put: a little beyond what the format allows."""


def restructure(documents: Documents, dice: random.Random) -> None:
    """Change ``documents`` in one place, or between two of them."""
    places = [place for name in sorted(documents) for each in documents[name] for place in _places(each)]
    if places:
        dice.choice(_CHANGES)(places, dice)


def _places(value: Any, depth: int = 0) -> list[Place]:
    found: list[Place] = []
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, member in steps:
        found.append((value, step))
        if depth < DEEPEST:
            found += _places(member, depth + 1)
    return found


def _get(place: Place) -> Any:
    return copy.deepcopy(place[0][place[1]])


def _put(holder: Any, name: str, value: Any, dice: random.Random) -> None:
    if isinstance(holder, dict):
        holder[name] = value
    else:
        holder.insert(dice.randint(0, len(holder)), value)


def _name(place: Place, dice: random.Random) -> str:
    return place[1] if isinstance(place[1], str) and dice.random() < 0.6 else dice.choice(NAMES)


def _holder(places: list[Place], dice: random.Random) -> Any:
    return dice.choice([*(place[0] for place in places), *filter(_holds, (place[0][place[1]] for place in places))])


def _holds(value: Any) -> bool:
    return isinstance(value, dict | list)


def move(places: list[Place], dice: random.Random) -> None:
    """A value to another object or list, of any document."""
    place = dice.choice(places)
    value, name = _get(place), _name(place, dice)
    target = _holder(places, dice)
    del place[0][place[1]]
    _put(target, name, value, dice)


def double(places: list[Place], dice: random.Random) -> None:
    """The same, and left where it was."""
    place = dice.choice(places)
    _put(_holder(places, dice), _name(place, dice), _get(place), dice)


def nest(places: list[Place], dice: random.Random) -> None:
    """A value inside an object, a list, a private member, or itself."""
    holder, step = place = dice.choice(places)
    value = _get(place)
    match dice.randrange(5):
        case 0:
            holder[step] = [value]
        case 1:
            holder[step] = {_name(place, dice): value}
        case 2:
            holder[step] = {"private": {"a": {"salt": "0" * 32, "value": value}}}
        case 3 if isinstance(value, dict):
            holder[step] = value | {_name(place, dice): value}
        case _:
            for _ in range(dice.choice((1, 28, 33))):
                value = [value]
            holder[step] = value


def lift(places: list[Place], dice: random.Random) -> None:
    """A value in the place of what holds it."""
    inner = [place for place in places if _holds(place[0][place[1]]) and place[0][place[1]]]
    if not inner:
        return
    holder, step = dice.choice(inner)
    held = holder[step]
    holder[step] = copy.deepcopy(dice.choice(list(held.values()) if isinstance(held, dict) else held))


def swap(places: list[Place], dice: random.Random) -> None:
    """Two values by each other, often of one name."""
    one = dice.choice(places)
    alike = [place for place in places if place[1] == one[1]] if dice.random() < 0.7 else places
    other = dice.choice(alike)
    one[0][one[1]], other[0][other[1]] = _get(other), _get(one)


def rename(places: list[Place], dice: random.Random) -> None:
    """A member under another name."""
    named = [place for place in places if isinstance(place[0], dict)]
    if named:
        place = dice.choice(named)
        value = _get(place)
        del place[0][place[1]]
        place[0][dice.choice(NAMES)] = value


def spell(places: list[Place], dice: random.Random) -> None:
    """A value as its own text, or a text as the object that it spells."""
    holder, step = place = dice.choice(places)
    value = _get(place)
    try:
        holder[step] = decode_object(value.encode()) if isinstance(value, str) else encode(value).decode()
    except (DocketError, TypeError, UnicodeError):
        holder[step] = f'{{"{step}":{repr(value)[:SPELLED]}}}'


def seal(places: list[Place], dice: random.Random) -> None:
    """A private member disclosed, withheld, emptied, added, or with something in it that does not belong there."""
    holder = dice.choice([place[0] for place in places])
    if not isinstance(holder, dict):
        return
    private = holder.get("private")
    if not isinstance(private, dict) or not private:
        holder["private"] = {"a": dice.choice((COMMITMENT, {"salt": "0" * 32, "value": _get(dice.choice(places))}))}
        return
    name = dice.choice(sorted(private))
    match dice.randrange(4):
        case 0:
            private[name] = dict(COMMITMENT)
        case 1:
            private[name] = {"salt": "0" * 32, "value": _get(dice.choice(places))}
        case 2:
            del private[name]
        case _:
            private[dice.choice(NAMES)] = _get(dice.choice(places))


_CHANGES: tuple[Callable[[list[Place], random.Random], None], ...] = (
    move, double, nest, lift, swap, rename, spell, seal,
)  # fmt: skip
