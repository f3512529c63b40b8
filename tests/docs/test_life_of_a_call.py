"""docs/life-of-a-call.md: every function that it names is there, and what may not be cut in two is no coroutine."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import docket

PAGE = (Path(__file__).parents[2] / "docs/life-of-a-call.md").read_text()
NAMED = re.compile(r"`([a-z0-9_/]+)\.py:([A-Za-z_.]+)`")
PHASES = [line for line in PAGE.splitlines() if line.startswith("|")][2:]
UNCUT = PAGE.split("## Steps that nothing may cut in two")[1]


def function(path: str, name: str) -> Callable[..., Any]:
    """The function ``name`` of the module at ``path`` below the package; raises where it is not there."""
    found: Any = importlib.import_module("docket." + path.replace("/", "."))
    for part in name.split("."):
        found = getattr(found, part)
    assert callable(found), f"{path}.py:{name} is no function"
    return found  # type: ignore[no-any-return]


def yields(found: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(found) or inspect.isasyncgenfunction(found) or inspect.isgeneratorfunction(found)


def functions() -> Iterator[FunctionType]:
    """Every function and method of docket."""
    for module in pkgutil.walk_packages(docket.__path__, "docket."):
        if module.name.endswith("__main__"):
            continue
        names = vars(importlib.import_module(module.name))
        owners = [names, *(vars(kind) for kind in names.values() if inspect.isclass(kind))]
        for owner in owners:
            for found in owner.values():
                if isinstance(found, FunctionType) and found.__module__ == module.name:
                    yield found


@pytest.mark.parametrize(("path", "name"), NAMED.findall(PAGE))
def test_every_function_that_the_page_names_is_there(path: str, name: str) -> None:
    function(path, name)


@pytest.mark.parametrize("name", ["OpenCall.settle", "Exchange", "nothing"])
def test_a_name_that_is_not_there_would_be_found(name: str) -> None:
    with pytest.raises(AttributeError):
        function("boundary/call/open_call", name)


def test_every_phase_says_where_it_is_what_is_durable_and_what_a_cancellation_does() -> None:
    assert len(PHASES) >= 10
    for line in PHASES:
        phase, where, durable, cancelled = [cell.strip() for cell in line.strip("|").split("|")]
        assert NAMED.search(where), phase
        assert phase, line
        assert durable, phase
        assert cancelled, phase


@pytest.mark.parametrize(("path", "name"), NAMED.findall(UNCUT))
def test_a_step_that_nothing_may_cut_in_two_says_so_and_is_no_coroutine(path: str, name: str) -> None:
    found = function(path, name)
    assert "oes not yield" in (found.__doc__ or ""), f"{name} does not say that it does not yield"
    assert not yields(found)


def test_whatever_says_that_it_does_not_yield_does_not() -> None:
    saying = [found for found in functions() if "oes not yield" in (found.__doc__ or "")]
    assert len(saying) >= len(NAMED.findall(UNCUT))
    assert [found.__qualname__ for found in saying if yields(found)] == []


def test_a_coroutine_would_be_found() -> None:
    assert yields(function("boundary/call/open_call", "OpenCall.begin"))
