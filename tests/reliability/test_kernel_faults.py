"""Faults that the kernel returns, the quick form of `make test-reliability`."""

from __future__ import annotations

import pytest

from tests.reliability import kernel_faults

WHY_NOT = kernel_faults.available()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)


def test_no_fault_of_a_system_call_loses_what_was_acknowledged() -> None:
    many, fared, wrong = kernel_faults.inject(60)
    assert wrong == []
    assert sum(fared.values()) == many == 60
    assert min(fared.values()) > 0
