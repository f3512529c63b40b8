"""Events to JSON and back, generic over the dataclasses of ``events``; a record inside one spells itself.

Invariant: ``to_data(from_json(...))`` gives back the very members that were read, whatever a newer version added.
A ``Draft`` is an event whose canonical bytes are known but which has no place in a chain yet.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any, NamedTuple, get_args, get_type_hints

from docket.errors import FormatError
from docket.ledger import events
from docket.ledger.events import By, Event, Fact, Other
from docket.primitives.canonical import Json, JsonObject, encode
from docket.primitives.frozen import value
from docket.primitives.money import Usd
from docket.primitives.sealed import SALT_BYTES, seal

DATA_DEPTH = 2
"""Level of an event's ``data`` in its line."""
VALUE_DEPTH = 4
"""Level of the value of a private member in its line: event, private, member, value."""
_COMMON = frozenset({"by", "private", "unknown"})
_ALIASES = {"JsonObject": dict, "Json": object, "Private": Mapping}
"""What the recursive aliases of JSON come to when a field's type is looked at."""
_PRIVATE_MEMBER = b'"private"'
_ENVELOPE = 400
"""More than the bytes of a line's members beside data, private and the name of the type."""
DISCLOSED = len('{"salt":"","value":}') + 2 * SALT_BYTES
"""Bytes that a private member takes beside its name and value."""


@value
class Draft:
    """An event in canonical bytes, before it has a sequence number: what a caller hands to the writer."""

    event: Event
    type: str
    by: str
    data: JsonObject
    private: Mapping[str, Json]
    opening: bytes
    """``{"by":...,"data":``"""
    data_bytes: bytes
    sealed_data: bytes
    """As ``data_bytes``, with every private member inside replaced by its commitment."""
    private_bytes: list[tuple[str, str, bytes]]
    """Name, its JSON spelling and the canonical value of every private member, in canonical order."""
    closing: str
    """``,"type":...}``"""
    weight: int
    """An upper bound of the bytes that it takes as a line."""


def draft(event: Event) -> Draft:
    """``event`` in canonical bytes. Raises FormatError where a member has no canonical form."""
    data = to_data(event)
    kind = event.name if type(event) is Other else event.type
    data_bytes = encode(data, DATA_DEPTH)
    sealed = encode(seal(data), DATA_DEPTH) if _PRIVATE_MEMBER in data_bytes else data_bytes
    weight = _ENVELOPE + len(data_bytes) + len(kind)
    private: list[tuple[str, str, bytes]] = []
    for name in sorted(event.private):
        spelled, member = _spelled(name), encode(event.private[name], VALUE_DEPTH)
        private.append((name, spelled, member))
        weight += len(spelled) + DISCLOSED + len(member) + 2
    opening, closing = _opening(event.by), _closing(kind)
    return Draft(event, kind, event.by, data, event.private, opening, data_bytes, sealed, private, closing, weight)


def to_data(event: Event) -> JsonObject:
    """The public members of ``event``; a field that is None is absent."""
    if type(event) is Other:
        return dict(event.data)
    data: JsonObject = {}
    for name, to_json, _, _ in _FIELDS[type(event)]:
        value = getattr(event, name)
        if value is not None:
            data[name] = value if to_json is None else to_json(value)
    if event.unknown:
        data.update(event.unknown)
    return data


def from_json(kind: str, by: str, data: JsonObject, private: JsonObject | None = None) -> Event:
    """The event of type ``kind`` with public members ``data`` and the disclosed ones of ``private``.

    A type that this version does not know becomes ``Other``. Raises FormatError where a known member is missing or is
    not of its type.
    """
    disclosed = _disclosed(private or {})
    asserter = typing.cast(By, by)
    known = _types().get(kind)
    if known is None:
        return Other(by=asserter, private=disclosed, name=kind, data=data)
    members, unknown = _read_members(known, data, where=kind)
    event: Event = known(by=asserter, private=disclosed, unknown=unknown, **members)
    return event


class _Field(NamedTuple):
    """How one field is spelled in JSON."""

    name: str
    to_json: Callable[[Any], Json] | None
    """None where its value is its JSON."""
    from_json: Callable[[Json], Any]
    required: bool


@cache
def _types() -> dict[str, type[Any]]:
    return {fact.type: fact for fact in get_args(events.Event) if fact is not Other}


class _Fields(dict[type[Any], tuple[_Field, ...]]):
    """By class, the fields that are members; each class is looked at once."""

    def __missing__(self, cls: type[Any]) -> tuple[_Field, ...]:
        hints = get_type_hints(cls, localns=_ALIASES)
        self[cls] = tuple(
            _field(field.name, hints[field.name], _is_required(field))
            for field in dataclasses.fields(cls)
            if not (issubclass(cls, Fact) and field.name in _COMMON)
        )
        return self[cls]


_FIELDS = _Fields()


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _field(name: str, hint: Any, required: bool) -> _Field:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        required = False  # every union of the vocabulary is a type or None
        hint = next(member for member in get_args(hint) if member is not types.NoneType)
    while hasattr(hint, "__supertype__"):
        hint = hint.__supertype__
    origin = typing.get_origin(hint) or hint
    if origin is typing.Literal:
        return _Field(name, None, lambda value: _expect(str, value), required)
    if origin is Usd:
        return _Field(name, str, lambda value: Usd.parse(_expect(str, value)), required)
    if origin is tuple:
        inner = _field(name, get_args(hint)[0], True)
        return _Field(
            name,
            lambda values: [inner.to_json(value) if inner.to_json else value for value in values],
            lambda values: tuple(inner.from_json(value) for value in _expect(list, values)),
            required,
        )
    if hasattr(origin, "to_json"):
        return _Field(name, origin.to_json, lambda value: _record_from_json(origin, value), required)
    return _Field(name, None, lambda value: _expect(origin, value), required)


def _expect(kind: Any, value: Json) -> Any:
    if type(value) is not kind:
        raise FormatError(f"{type(value).__name__} where {kind.__name__} belongs")
    return value


def _record_from_json(cls: type[Any], value: Json) -> Any:
    document: JsonObject = _expect(dict, value)
    members, _ = _read_members(cls, document, where=cls.__name__.lower())
    return cls(**members)


def _read_members(cls: type[Any], document: JsonObject, *, where: str) -> tuple[dict[str, Any], JsonObject]:
    members: dict[str, Any] = {}
    unknown = dict(document)
    for name, to_json, read, required in _FIELDS[cls]:
        if name not in document:
            if required:
                raise FormatError(f"no member {name!r}", where=where)
            if _has_no_default(cls, name):
                members[name] = None
            continue
        try:
            members[name] = read(document[name])
        except FormatError as error:
            raise FormatError(str(error), where=f"{where}.{name}") from error
        if to_json is None or to_json(members[name]) == document[name]:
            del unknown[name]
    return members, unknown


def _has_no_default(cls: type[Any], name: str) -> bool:
    return _is_required(next(field for field in dataclasses.fields(cls) if field.name == name))


def _disclosed(private: JsonObject) -> dict[str, Json]:
    return {name: member["value"] for name, member in private.items() if isinstance(member, dict) and "value" in member}


@lru_cache(maxsize=256)
def _spelled(name: str) -> str:
    return encode({name: 0})[1:-3].decode()


@lru_cache(maxsize=256)
def _opening(by: str) -> bytes:
    return b'{"by":' + encode(by) + b',"data":'


@lru_cache(maxsize=256)
def _closing(kind: str) -> str:
    return f',"type":{encode(kind).decode()}}}'
