"""Tests of the service: coroutines, each with a service of its own if it asks for a `client`."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from pathlib import Path
from typing import Any

import pytest

from safespot.service import ledger
from tests.support.serving import serving, uniform


@pytest.fixture(autouse=True)
def small_ledgers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of 16 MB would take most of the time of a test."""
    monkeypatch.setattr(ledger, "BYTES", 2**18)


@pytest.fixture
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A service of a learner that compiles quickly; its settings may be given as a parameter."""
    return serving(tmp_path / "it", uniform(), **getattr(request, "param", {}))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine, within the service that it asks for."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given: dict[str, Any] = {
        name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters
    }

    async def work() -> None:
        async with contextlib.AsyncExitStack() as stack:
            if "client" in given:
                given["client"] = await stack.enter_async_context(given["client"])
            await pyfuncitem.obj(**given)

    asyncio.run(work())
    return True
