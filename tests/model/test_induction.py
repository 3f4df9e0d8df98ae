"""Forward induction, as learning uses it: the values of backward induction."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import safespot as ss
from safespot.model.dynamic_programming import forward_values
from safespot.planning.process import occupancy_values, policy_occupancy, policy_values
from tests.support.models import Arguments, random_policy, tables, valid


@settings(max_examples=12)
@given(valid(feasible=False), st.integers(0, 2**32 - 1))
def test_forward_values_are_those_of_backward_induction(arguments: Arguments, seed: int) -> None:
    cmdp = ss.CMDP(**arguments)
    model = cmdp.model
    policy = random_policy(tables(arguments).mask, np.random.default_rng(seed))
    _, S, A = policy.shape
    # Whatever stands in what is worked in is written over.
    now, after, mass, visits, found = (
        np.full(n, 9.0) for n in (S, S, S * A, S * A, len(model.payoffs))
    )
    forward_values(model, policy.reshape(-1), now, after, mass, visits, found)
    backward = policy_values(cmdp.process, policy)[:, 0] @ model.start
    np.testing.assert_allclose(found, backward, rtol=0, atol=1e-12)
    measure = policy_occupancy(cmdp.process, policy)
    assert measure.sum(axis=1).tolist() == [pytest.approx(1.0)] * cmdp.H
    values = occupancy_values(cmdp.process, measure)
    np.testing.assert_allclose(values, backward, rtol=0, atol=1e-12)
