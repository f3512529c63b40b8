"""Fixtures of the end-to-end tests: nothing between docket, provider and agent is replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kit.installed import Installed, Provider, installed_once, started_provider


@pytest.fixture(scope="session")
def wheel_environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the built wheel, made once for all workers; dependencies come from the tests' own."""
    return installed_once(tmp_path_factory.getbasetemp())


@pytest.fixture
def installed(wheel_environment: Path, tmp_path: Path) -> Installed:
    return Installed(wheel_environment / "bin/python", wheel_environment / "bin/docket", tmp_path)


@pytest.fixture
def provider(wheel_environment: Path) -> Iterator[Callable[..., Provider]]:
    """Starts scripted providers; they end with the test."""
    with ExitStack() as providers:
        yield lambda *flags: providers.enter_context(started_provider(wheel_environment / "bin/python", *flags))
