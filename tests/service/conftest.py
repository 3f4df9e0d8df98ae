"""Tests of the service."""

from __future__ import annotations

import pytest

from safespot.service import ledger


@pytest.fixture(autouse=True)
def small_ledgers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of 16 MB would take most of the time of a test."""
    monkeypatch.setattr(ledger, "BYTES", 2**18)
