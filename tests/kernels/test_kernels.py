"""Compiled kernels give the bits of the plain ones, and what is derived never goes stale."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import safespot as ss
from safespot.spot import optimism, updates, visits
from safespot.spot import window as windows
from tests.support.digest import LEARNERS, digests
from tests.support.episodes import full_mask, random_episode


def test_compiled_kernels_equal_plain_ones_bit_for_bit() -> None:
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root), str(Path(ss.__file__).parents[1])])
    plain = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.support.digest"], cwd=root, check=True,
        capture_output=True, text=True,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": path},
    )  # fmt: skip
    compiled = digests()
    assert plain.stdout.splitlines() == [f"{key} {value}" for key, value in compiled.items()]
    assert len(set(compiled.values())) == len(compiled)  # the digests tell learners apart


@pytest.mark.parametrize("kernel", [updates.exponentials, updates.dual_step, updates.softmax])
def test_a_kernel_is_compiled(kernel: Any) -> None:
    """Else the comparison above would compare a thing with itself."""
    if not os.environ.get("NUMBA_DISABLE_JIT"):
        assert callable(kernel.py_func)
        assert kernel.targetoptions["nogil"]
        assert not kernel.targetoptions.get("fastmath")
        assert not kernel.targetoptions.get("parallel")


def rederived(learner: ss.Spot) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """What the learner holds, and the same from counts, logits and window alone."""
    state, radii = learner.state, learner.rates.radii
    deficit, weight, max_deficit, pi = (
        np.full_like(array, np.nan)
        for array in (state.deficit, state.weight, state.max_deficit, state.pi)
    )
    optimism.refresh_all(radii, learner.statistics, state.mask, deficit, weight, max_deficit)
    H, S, A = pi.shape
    work = updates.workspace(H * S, A)
    updates.softmax(state.logits.reshape(-1), pi.reshape(-1), A, 0, H * S, work)
    window = learner.window._replace(tree=np.zeros_like(learner.window.tree))
    windows.rebuild_tree(window)
    made: dict[str, tuple[np.ndarray, np.ndarray]] = {
        "deficit": (state.deficit, deficit), "weight": (state.weight, weight), "pi": (state.pi, pi),
        "tree": (learner.window.tree[:, 1:], window.tree[:, 1:]),
    }  # fmt: skip
    if learner.statistics.successors.dense.shape[0] == 0:
        made["max_deficit"] = state.max_deficit, max_deficit
    if learner.rates.learned:
        lower, upper = np.zeros_like(state.lower), np.zeros_like(state.upper)
        optimism.threshold_bounds(radii, window, lower, upper)
        made.update(lower=(state.lower, lower), upper=(state.upper, upper))
    return made


WINDOWED = sorted(k for k, v in LEARNERS.items() if v.get("estimator") != "total")


@pytest.mark.parametrize("dense", [True, False])
@given(st.sampled_from(WINDOWED), st.integers(1, 120), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=30)
def test_what_is_derived_equals_what_is_derived_anew(
    dense: bool, name: str, episodes: int, seed: int
) -> None:
    S, A, H, m = 4, 3, 3, 2
    arguments = {
        "start": 0, "action_mask": None, "bonus_scale": 0.02, "threshold_scale": 0.1, **LEARNERS[name]
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(visits, "DENSE", 2**22 if dense else 0)
        learner = ss.Spot(S, A, H, m, episodes=200, rho=3.0, **arguments)
    rng, mask = np.random.default_rng(seed), full_mask(arguments["action_mask"], H, S, A)
    for _ in range(episodes):
        learner.observe(random_episode(rng, mask, m, start=arguments["start"], missing=0.2))
    for key, (held, anew) in rederived(learner).items():
        assert held.tobytes() == anew.tobytes(), key


def test_what_is_derived_follows_an_epoch() -> None:
    learner = ss.Spot(2, 2, 1, 1, episodes=None, rho=3.0, bonus_scale=0.1, window=0.1)
    rng, mask = np.random.default_rng(0), full_mask(None, 1, 2, 2)
    for t in range(1, 1100):
        learner.observe(random_episode(rng, mask, 1))
        if t in (1023, 1024, 1025, 1099):
            for key, (held, anew) in rederived(learner).items():
                assert held.tobytes() == anew.tobytes(), (t, key)
