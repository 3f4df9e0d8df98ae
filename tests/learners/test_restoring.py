"""What no learner can have stood at is refused, array by array; what one stood at is taken up again."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.errors import InvalidFile, InvalidOption
from safespot.learners import history
from safespot.learners.options import AnyOptions, DualOptions, Options, SpotOptions
from tests.support.damage import put

Array = Any
SAFE = [[1, 0], [1, 0]]  # of `machine`


@functools.cache
def played(kind: str) -> tuple[Any, dict[str, Array]]:
    """A learner after 70 episodes, and its arrays."""
    problem = ss.problems.make("machine")
    made: dict[str, Any] = {
        "epochs": lambda: ss.SpotEpochs(**problem.interface, baseline=SAFE, explore_budget=50.0),
        "window": lambda: ss.SpotEpochs(**problem.interface, window=0.5),
        "guard": lambda: ss.Guard(ss.Uniform(**problem.interface, episodes=90), SAFE, 40),
        "no credit": lambda: ss.Guard(
            ss.Uniform(**problem.interface, episodes=90), SAFE, 40, credit=False
        ),
        "planner": lambda: ss.learners.make("opt-cmdp", problem.interface, episodes=90),
        "spot": lambda: ss.Spot(**problem.interface, episodes=90, rho=2.0),
    }
    learner, streams = made[kind](), ss.streams(0)
    for t in range(1, 71):
        learner.observe(ss.play(problem, learner.policy, streams, t))
    return learner, {name: array.copy() for name, array in learner.arrays().items()}


@pytest.mark.parametrize("kind", ["epochs", "window", "guard", "no credit", "planner", "spot"])
def test_a_learner_goes_on_from_its_arrays(kind: str) -> None:
    learner, arrays = played(kind)
    again = learner.anew()
    again.restore({name: array.copy() for name, array in arrays.items()})
    found = again.arrays()
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
    np.testing.assert_array_equal(again.policy, learner.policy)
    np.testing.assert_array_equal(again.thresholds, learner.thresholds)
    assert again.episode == learner.episode == 71


EPOCHS = [
    ("totals.span", put(0, -1)), ("totals.due", put(0, math.nan)),
    ("totals.ring", lambda a: np.zeros((2, *a.shape[1:]), np.float32)), ("totals.means.product", put((0, 0), 0.0)),
    ("totals.means.weight", lambda a: a[:, 1:]), ("trial.product", put((0, 0), -1.0)),
    ("trial.total", put(0, math.inf)),
    ("prior.weight", put(0, 1.5)), ("prior.weight", put(0, -0.5)), ("prior.slopes", put((0, 0), -1.0)),
    ("prior.log_terms", put((0, 0), math.nan)),
    ("exploring.means.product", put((0, 0), 0.0)), ("exploring.means.drift", lambda a: a.astype(np.float32)),
    ("certified.policies", lambda a: np.zeros((1, *a.shape[1:]))),
    ("certified.policies", lambda a: a.astype(np.float32)),
    ("history", put((0, 0), -1)), ("history", put((0, 1), 4)), ("history", put((0, 3), 3)),
    ("history", lambda a: a[:0]),
    ("history", lambda a: a[:, :4]), ("history", lambda a: a[0]), ("history", lambda a: a.astype(np.int32)),
    ("history", lambda a: np.concatenate([a, a])), ("pi", put((0, 0, 0), -0.5)), ("pi", put((0, 0), 0.25)),
    ("pi", lambda a: a[:1]), ("lam", put(0, -1.0)), ("lower", put(0, -1.0)), ("upper", put(0, 1e3)),
    ("lower", put(0, 1e3)), ("finished", put(0, 69)), ("clock", put(0, -1)), ("clock", put(0, 0)),
    ("clock", put(0, 72)),
    ("planned", put(0, -1)), ("planned", put(0, 999)), ("exploring.spent", put(0, math.nan)),
    ("memory", put((0, 0), math.inf)),
    ("mask", put((0, 0, 0), False)), ("statistics.n", put((0, 0), 71)),
]  # fmt: skip
WINDOW = [
    ("totals.ring", lambda a: a[0]), ("totals.span", put(1, 65)), ("totals.span", put(2, 64)),
    ("totals.span", put(2, -1)),
]  # fmt: skip
GUARD = [
    ("account.budget.spent", put(0, math.nan)), ("account.plays", put(0, -1)), ("account.plays", put(1, 71)),
    ("account.plays", lambda a: a[:3]), ("account.unsafe", put(0, 3)), ("account.unsafe", put(0, -1)),
    ("account.budget.means.counted", put(0, 69.0)), ("account.budget.means.product", put((0, 0), 0.0)),
    ("account.trial.counted", put(0, 71.0)), ("account.trial.product", put((0, 0), -1.0)),
    ("account.trial.lower", put(0, 1.1)), ("account.trial.lower", put(0, -0.1)),
    ("account.budget.means.drift", lambda a: a.astype(np.float32)), ("guarded.pi", put((0, 0, 0), 2.0)),
]  # fmt: skip
PLANNER = [
    ("planned", put((0, 0), -1)), ("planned", put((0, 0), 71)), ("due", put(0, 2)), ("due", put(0, -1)),
    ("pi", put((0, 0), 0.25)), ("pi", put((0, 0), (1.5, -0.5))), ("lam", put(0, -1.0)), ("finished", put(0, 71)),
]  # fmt: skip
CASES = [
    *(("epochs", *case) for case in EPOCHS), *(("window", *case) for case in WINDOW),
    *(("guard", *case) for case in GUARD), ("no credit", "account.budget.means.counted", put(0, 70.0)),
    *(("planner", *case) for case in PLANNER),
    ("spot", "lam", put(0, 2.5)), ("spot", "lam", put(0, math.nan)), ("spot", "finished", lambda a: a.astype(float)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "name", "change"), CASES, ids=[f"{k}-{name}-{i}" for i, (k, name, _) in enumerate(CASES)]
)  # fmt: skip
def test_what_no_learner_can_have_is_refused(kind: str, name: str, change: Any) -> None:
    learner, arrays = played(kind)
    wrong = {**arrays, name: change(arrays[name].copy())}
    with pytest.raises((InvalidFile, ValueError)):
        learner.anew().restore(wrong)


def test_a_history_is_a_table() -> None:
    parts = (
        history.Part(1, "first", 1, "kept", 40), history.Part(2, "explore", 65, "open", 0),
        history.Part(2, "try", 90, "broken", 100), history.Part(2, "retreat", 101, "open", 0),
    )  # fmt: skip
    assert history.from_array(history.as_array(parts)) == parts
    rows = history.table(parts, 95)
    assert [(row["kind"], row["first"], row["last"]) for row in rows] == [
        ("first", 1, 64), ("explore", 65, 89), ("try", 90, 95),
    ]  # fmt: skip
    assert history.table(parts, 101)[-1]["last"] == 101
    assert history.table(parts, 100)[-1]["kind"] == "try"


# Options


@pytest.mark.parametrize(
    ("options", "given"),
    [
        (AnyOptions, {"window": 1.0}), (AnyOptions, {"delta": 1e-9}), (AnyOptions, {"stance": 0.0}),
        (AnyOptions, {"stance": 1}), (AnyOptions, {"episodes": None}), (AnyOptions, {"episodes": 1}),
        (Options, {"bonus_scale": 0.0}), (Options, {"threshold_scale": 1e100}), (Options, {"estimator": "pooled"}),
        (Options, {"estimator": "total", "independent_hints": True}),
        (DualOptions, {"rho": 1e100}), (DualOptions, {"rho": 1e-9}), (DualOptions, {"rho": math.inf, "dual_step": 0.0}),
        (SpotOptions, {"rho": math.inf, "dual_step": 1.0, "policy_step": 0.0}),
        (SpotOptions, {"rho": 1.0, "bonus_scale": "auto"}), (SpotOptions, {"rho": 1.0, "bonus": "bernstein"}),
    ],
)  # fmt: skip
def test_options_at_their_ends_are_taken(options: Any, given: dict[str, Any]) -> None:
    made = options(**{"episodes": 10, **given})
    for name, value in given.items():
        assert getattr(made, name) == value


def test_a_slack_is_one_number_or_one_for_each_in_the_users_units() -> None:
    triage = ss.problems.make("triage").interface
    m, scale = triage["constraints"], 2.0
    ranges = {**triage["ranges"], "constraints": [(0.0, scale)] * m}
    face = {**triage, "ranges": ranges}
    H = triage["horizon"]
    for slack, least in ((0.5, 0.5), (np.linspace(0.4, 0.9, m), 0.4)):
        made: Any = ss.Spot(**face, episodes=9, slack=slack)
        assert made.rho == pytest.approx(2.0 * H / (least / scale))
    for wrong in (0.0, -1.0, np.full(m + 1, 0.5), np.full((m, 1), 0.5)):
        with pytest.raises(InvalidOption, match="slack"):
            ss.Spot(**face, episodes=9, slack=wrong)
