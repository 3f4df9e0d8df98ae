"""Both layouts of the successor counts."""

from __future__ import annotations

import pytest

from safespot.spot import visits


@pytest.fixture(params=["dense", "pool"])
def layout(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Either layout of the successor counts, whatever the problem's size."""
    if request.param == "pool":
        monkeypatch.setattr(visits, "DENSE", 0)
    return str(request.param)
