"""What every test gets: a coroutine test runs on a fresh event loop, and children find signals at their defaults."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("docket", deadline=None)  # the machine is shared: how long one example takes says nothing
settings.load_profile("docket")

for _number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:  # as a shell leaves them to what it starts in the background
        signal.signal(_number, signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def _state_of_its_own() -> Iterator[None]:
    """Receipts that a run could not write where it runs never reach the state directory of whoever runs the tests."""
    with tempfile.TemporaryDirectory(prefix="docket-state-") as state:
        os.environ["XDG_STATE_HOME"] = state
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run ``async def`` tests to their end."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True
