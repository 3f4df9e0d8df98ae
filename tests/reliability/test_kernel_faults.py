"""Faults that the kernel returns, the quick form of `make test-reliability`."""

from __future__ import annotations

import pytest

from safespot import files
from safespot.storage.durable import DurableLearner
from tests.reliability import kernel_faults, survival

WHY_NOT = kernel_faults.available()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)


def test_no_fault_of_a_system_call_loses_what_was_acknowledged() -> None:
    many, fared, wrong = kernel_faults.inject(60)
    assert wrong == []
    assert sum(fared.values()) == many == 60
    assert min(fared.values()) > 0


def test_these_faults_notice_an_early_acknowledgement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DurableLearner, "observe", survival.hasty_observe)
    assert kernel_faults.inject(40, seed=1)[2]


def test_these_faults_notice_an_error_that_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "failure", lambda what, problem, more="": problem)
    assert any("OSError" in text for text in kernel_faults.inject(40, seed=2)[2])
