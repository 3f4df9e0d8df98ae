"""What the first `learn` of a machine has to compile: whoever adds to it is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import safespot as ss
from safespot.kernels import jit

if numba.config.DISABLE_JIT or jit._parts() is None:
    pytest.skip("kernels are not compiled in parts here", allow_module_level=True)

from safespot.kernels import seldom

FIRST_LEARN = """
import json
from numba.core import event
import safespot as ss
from safespot.kernels import seldom
from safespot.kernels.parts import WholeDispatcher

seldom.PATIENCE = 1e9  # however slow the machine is
wholes, functions = [], []

class Counted(event.Listener):
    def on_start(self, what):
        dispatcher = what.data["dispatcher"]
        functions.append(dispatcher.py_func.__qualname__)
        if isinstance(dispatcher, WholeDispatcher):
            wholes.append(functions[-1])

    def on_end(self, what):
        pass

event.register("numba:compile", Counted())
problem = ss.problems.make("random", states=3, actions=2, horizon=3)
ss.learn(problem, ss.SpotEpochs(**problem.interface), episodes=200)
print(json.dumps({"wholes": wholes, "functions": len(functions)}))
"""


@pytest.mark.slow
def test_the_first_learn_compiles_its_loop_and_next_to_nothing_else(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FIRST_LEARN], check=True, capture_output=True, text=True,
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
    )  # fmt: skip
    compiled: dict[str, Any] = json.loads(done.stdout)
    wholes = compiled["wholes"]
    assert wholes.count("play_chunk") == 1
    assert len(set(wholes)) == len(wholes)  # none for two kinds of arguments
    assert set(wholes) <= {"play_chunk", "rebuild_tree", "read_fixed", "read_meter"}
    assert compiled["functions"] <= 115  # each takes a tenth of a second and more


@jit.inlined
def twice(x: float) -> float:
    """A part."""
    return 2.0 * x


@jit.seldom
def doubled(x: Any) -> Any:
    """Seldom run."""
    out = np.zeros(x.shape[0])
    for k in range(x.shape[0]):
        out[k] = twice(x[k])
    return out


@pytest.fixture
def rare(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A kernel that nobody has called yet."""
    made: Any = jit.seldom(doubled.py_func)  # type: ignore[attr-defined]
    made._cache.disable()
    part: Any = twice
    part.whole = None
    return made


def test_a_seldom_kernel_runs_uncompiled_with_all_that_it_calls(rare: Any) -> None:
    assert rare(np.array([1.0, 2.0])).tolist() == [2.0, 4.0]
    assert not rare.overloads
    assert twice.whole is None  # type: ignore[attr-defined]
    assert twice(1.5) == 3.0  # on its own again, it is a kernel as before
    assert twice.whole is not None  # type: ignore[attr-defined]


def test_a_seldom_kernel_is_compiled_for_large_arrays(rare: Any) -> None:
    assert rare(np.ones(seldom.SMALL + 1)).sum() == 2.0 * (seldom.SMALL + 1)
    assert rare.overloads


def test_a_seldom_kernel_is_compiled_when_it_has_taken_long(rare: Any) -> None:
    rare(np.ones(3))
    assert rare.spent > 0.0
    rare.spent = seldom.PATIENCE + 1.0
    assert rare(np.ones(2)).tolist() == [2.0, 2.0]
    assert rare.overloads


def test_who_compiles_ahead_compiles_it_at_once(rare: Any) -> None:
    with jit.compiled_at_once():
        rare(np.ones(3))
    assert rare.overloads


def test_an_error_leaves_other_kernels_compiled(rare: Any) -> None:
    with pytest.raises(AttributeError):
        rare(3.0)
    assert twice(1.0) == 2.0
    assert twice.whole is not None  # type: ignore[attr-defined]


def test_plans_are_the_same_to_the_last_bit_compiled_or_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = ss.problems.make("random", states=4, actions=3, horizon=4, seed=5)
    found = []
    for compiled in (False, True):
        monkeypatch.setattr(
            seldom.SeldomDispatcher, "_is_quick", lambda *_, plain=not compiled: plain
        )
        learner = ss.SpotEpochs(**problem.interface)
        run = ss.learn(problem, learner, episodes=500, seed=3)
        found.append((learner.proposal.tobytes(), learner.policy.tobytes(), run.regret.tobytes()))
    assert found[0] == found[1]
