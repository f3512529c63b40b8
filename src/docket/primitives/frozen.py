"""Dataclasses that are made for every call: frozen for the type checker, not at run time.

One that is frozen at run time takes three times as long to make, because every field is set by a call; a named tuple
takes five times as long to look into. A class that is called with names has a dictionary made of them each time, which
takes twice as long again: what the path of a call makes of a ``value`` is given by place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    """``cls`` as a dataclass with slots that nobody changes."""
    return dataclass(slots=True)(cls)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """As ``value``, for what has more fields than a reader can count: they are given by name."""
    return dataclass(slots=True, kw_only=True)(cls)
