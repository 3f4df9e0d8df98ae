"""Tables of outcomes as problems: endings, averages, what is refused; the frozen lake and the taxi."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.toy_text import FrozenLakeEnv, TaxiEnv

import safespot as ss
from safespot.model.outcome_tables import TableOutcome, mask_with_endings

# A walk of two states: from 0, action 1 dies with probability 1/4, is discharged with 1/4 and rests in 1 else.
WARD: dict[int, dict[int, list[Any]]] = {
    0: {0: [(1.0, 0, 0.2, False)], 1: [(0.25, 0, 0.0, True), (0.25, 1, 1.0, True), (0.5, 1, 0.5, False)]},
    1: {0: [(0.5, 1, 0.1, False), (0.5, 1, 0.3, False)]},
}  # fmt: skip
DEATH, DISCHARGE = ss.gym.Ending(reward=0, constraints=0), ss.gym.Ending(reward=1, constraints=[1])
BOTH = {0: DEATH, 1: DISCHARGE}
LIMIT = ss.Limit(threshold=2.0)


def alive(outcome: TableOutcome) -> float:
    return float(not (outcome.ended and outcome.next_state == 0))


def ward(**changes: Any) -> ss.Problem:
    arguments: dict[str, Any] = {
        "env": WARD, "horizon": 3, "constraints": alive, "limits": LIMIT, "endings": BOTH,
    }  # fmt: skip
    return ss.gym.problem_from_table(**(arguments | changes))


def test_endings_lead_to_absorbing_states_behind_the_tables_own() -> None:
    cmdp = ward().cmdp
    rows = cmdp.transitions[0].toarray().reshape(4, 2, 4)
    np.testing.assert_array_equal(rows[0, 0], [1, 0, 0, 0])
    np.testing.assert_array_equal(rows[0, 1], [0, 0.5, 0.25, 0.25])
    np.testing.assert_array_equal(rows[1, 0], [0, 1, 0, 0])
    np.testing.assert_array_equal(rows[2, 0], [0, 0, 1, 0])
    np.testing.assert_array_equal(rows[3, 0], [0, 0, 0, 1])
    # What the table lacks is inadmissible, and where nothing is decided there is one action.
    admissible = [[True, True], [True, False], [True, False], [True, False]]
    np.testing.assert_array_equal(cmdp.actions, admissible)


def test_payoffs_are_averages_over_outcomes_and_endings_pay_what_they_declare() -> None:
    cmdp = ward().cmdp
    paid = [[0.2, 0.5], [0.2, 0.0], [0.0, 0.0], [1.0, 0.0]]
    counted = [[1.0, 0.75], [1.0, 0.0], [0.0, 0.0], [1.0, 0.0]]
    np.testing.assert_allclose(cmdp.rewards[0], paid, atol=1e-15)
    np.testing.assert_allclose(cmdp.constraints[0, 0], counted, atol=1e-15)


def test_death_does_not_look_safe() -> None:
    # Action 1 at once, by hand: V_g = 3/4 + 2 (1/2 rest + 1/4 discharged), the dead count nothing.
    policy = np.zeros((3, 4, 2))
    policy[..., 0] = 1.0
    policy[0, 0] = [0.0, 1.0]
    reached = ss.evaluate(ward().cmdp, policy)
    assert reached.constraints == pytest.approx([0.75 + 2 * 0.75], abs=1e-12)
    assert reached.value == pytest.approx(0.5 + 2 * (0.5 * 0.2 + 0.25 * 1.0), abs=1e-12)
    # Had nobody thought about it and one ending served all, death would look like a discharge.
    careless = ss.evaluate(ward(endings=DISCHARGE).cmdp, policy[:, :3])
    assert careless.constraints == pytest.approx([0.75 + 2 * 1.0], abs=1e-12)


def test_an_ending_keeps_plain_numbers_whatever_held_them() -> None:
    kept, plain = ss.gym.Ending(np.array(0.5), np.array([1, 0])), ss.gym.Ending(0.5, (1.0, 0.0))  # type: ignore[arg-type]
    assert kept == plain
    assert len({kept, plain}) == 1
    assert type(kept.reward) is float


def test_absorbing_states_are_named_one_by_one_where_there_are_several() -> None:
    named = {"state_names": ["in bed", "at rest"]}
    assert ward(**named, endings=DEATH).cmdp.names.state(2) == "ended"
    both = ward(**named).cmdp.names
    assert [both.state(s) for s in range(4)] == [
        "in bed",
        "at rest",
        "ended, way 1",
        "ended, way 2",
    ]


@pytest.mark.parametrize("steps", [(), (3,)])
def test_an_absorbing_state_has_action_0_alone_whatever_mask_the_others_have(
    steps: tuple[int, ...],
) -> None:
    given = np.ones((*steps, 2, 3), bool)
    given[..., 1, 0] = False
    mask = mask_with_endings(given, 2, 3, absorbing=2)
    assert mask is not None
    assert mask.shape == (*steps, 4, 3)
    np.testing.assert_array_equal(mask[..., :2, :], given)
    assert (mask[..., 2:, :] == [True, False, False]).all()
    np.testing.assert_array_equal(
        mask_with_endings(None, 1, 2, absorbing=1), [[True, True], [True, False]]
    )
    assert mask_with_endings(None, 2, 3, absorbing=0) is None


@pytest.mark.parametrize(
    "mask",
    [np.ones((2, 3)), np.ones((2, 2), bool), np.ones((3, 3), bool), np.ones((1, 1, 2, 3), bool)],
)
def test_a_mask_of_another_kind_is_refused(mask: Any) -> None:
    with pytest.raises(ss.errors.InvalidOption, match="action_mask has type"):
        mask_with_endings(mask, 2, 3, absorbing=1)


def test_one_number_serves_every_constraint() -> None:
    cmdp = ward(
        constraints=lambda o: [alive(o), 0.5],
        limits=[LIMIT, ss.Limit(threshold=1)],
        endings=ss.gym.Ending(0, 0.25),
    ).cmdp
    np.testing.assert_array_equal(cmdp.constraints[:, 0, 2, 0], [0.25, 0.25])
    each = ward(
        constraints=lambda o: [alive(o), 0.5],
        limits=[LIMIT, ss.Limit(threshold=1)],
        endings=ss.gym.Ending(0, [0.25, 1]),
    ).cmdp
    np.testing.assert_array_equal(each.constraints[:, 0, 2, 0], [0.25, 1.0])


def test_an_array_of_constraints_is_what_a_function_says() -> None:
    array = np.array([[[1.0, 0.25], [0.5, 0.0]]])
    by_array = ward(constraints=array).cmdp
    by_function = ward(constraints=lambda o: array[0, o.state, o.action]).cmdp
    assert by_array == by_function
    np.testing.assert_allclose(by_array.constraints[0, 0, :2], [[1.0, 0.25], [0.5, 0.0]])


def test_units_and_senses_are_the_users() -> None:
    cmdp = ward(
        rewards=lambda o: -10.0 * o.ended,
        reward_range=(-10, 0),
        constraints=lambda o: 3.0 * o.action,
        limits=ss.Limit(sense="<=", range=(0, 4), threshold=6.0),
        endings=ss.gym.Ending(reward=0, constraints=0),
    ).cmdp
    assert cmdp.rewards[0, 0, 1] == -5.0
    assert cmdp.constraints[0, 0, 0, 1] == 3.0
    assert cmdp.senses == ("<=",)
    # An ended step pays 0 in the user's units, the best there is, and not 0 inside.
    assert cmdp.rewards[0, 2, 0] == 0.0
    assert cmdp.model.payoffs[0, 0, 2 * 2] == 1.0


def test_the_start_is_a_state_a_distribution_or_the_environments() -> None:
    assert ward().cmdp.start == 0
    assert ward(start=1).cmdp.start == 1
    np.testing.assert_array_equal(ward(start=[0.5, 0.5]).cmdp.start, [0.5, 0.5, 0, 0])
    own = SimpleNamespace(P=WARD, initial_state_distrib=np.array([0.25, 0.75]))
    np.testing.assert_array_equal(ward(env=own).cmdp.start, [0.25, 0.75, 0, 0])
    assert ward(env=own, start=0).cmdp.start == 0
    point = SimpleNamespace(P=WARD, initial_state_distrib=np.array([0.0, 1.0]))
    assert ward(env=point).interface["start"] == 1  # nothing to be learned (D5)


def test_lists_do_as_well_as_dicts_and_wrappers_are_looked_through() -> None:
    lists = [[WARD[0][0], WARD[0][1]], [WARD[1][0]]]
    assert ward(env=lists).cmdp == ward().cmdp
    wrapped = gymnasium.make("FrozenLake-v1")
    options: dict[str, Any] = {
        "horizon": 4, "constraints": lambda o: 1.0, "limits": LIMIT, "endings": DEATH,
    }  # fmt: skip
    assert (
        ss.gym.problem_from_table(wrapped, **options).cmdp
        == ss.gym.problem_from_table(FrozenLakeEnv(), **options).cmdp
    )


def test_what_never_happens_needs_no_ending() -> None:
    never = {0: {0: [(1.0, 0, 0.0, False), (0.0, 0, 0.0, True)]}}
    problem = ward(env=never, constraints=lambda o: 1.0, endings=None)
    assert problem.cmdp.S == 1
    assert problem.cmdp.actions is None


def test_signals_are_passed_on() -> None:
    signals = ss.signals.Signals(rewards=ss.signals.Deterministic())
    assert ward(signals=signals).signals is signals


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"endings": None}, r"can end in state 0 \(from state 0, action 1\), and no ending is declared"),
    ({"endings": {0: DEATH, 1: "discharge"}}, "endings must be an Ending, or a dict of them"),
    ({"endings": 0}, "endings must be an Ending"),
    ({"endings": ss.gym.Ending(0, [0, 1])}, "expected a number for each of the 1 constraints"),
    ({"env": object()}, "has no table of outcomes"),
    ({"env": {0: {}}}, "lists no action"),
    ({"env": {1: WARD[0]}}, "states must be 0 to 0, without a gap"),
    ({"env": {0: 5}}, "the actions of state 0 must be a dict or a list"),
    ({"env": {0: {0: 5}}}, "the outcomes of state 0, action 0 must be a dict or a list"),
    ({"env": {0: {0: [(1.0, 0)]}}}, r"expected \(probability, next state, reward, ended\)"),
    ({"env": {0: {0: [(1.0, 1, 0, False)]}}}, "leads to state 1; states are 0 to 0"),
    ({"env": {0: {0: [(1.0, 0.5, 0, False)]}}}, "must be a whole number"),
    ({"env": {0: {0: [(0.5, 0, 0, False)]}}}, "sum to 0.5"),
    ({"env": {0: {0: [(2.0, 0, 0, False), (-1.0, 0, 0, False)]}}}, "probability -1"),
    ({"env": {0: {0: [(np.nan, 0, 0, False)]}}}, "finite"),
    ({"env": {0: {0: [(1.0, 0, 0, False)]}, 1: {}}}, "every state needs an admissible action"),
    ({"rewards": lambda o: [1.0, 0.0]}, "the function for rewards must return a number"),
    ({"rewards": lambda o: "much"}, "rewards must be an array of real numbers"),
    ({"rewards": lambda o: 2.0}, "reward at state 0, action 0 is 2.0"),
    ({"constraints": lambda o: [[1.0]]}, "the function for constraints must return a number"),
    ({"constraints": [[1.0, 0.0]]}, r"expected \[m,S,A\] over the table's states"),
    ({"constraints": np.ones((1, 4, 2))}, r"S = 2 and A = 2"),
    ({"start": [0.5, 0.25, 0.25]}, "over the table's S = 2 states"),
    ({"start": 7}, "states are 0 to 3"),
    ({"horizon": 0}, "horizon must be at least 1"),
    ({"limits": ss.Limit(threshold=9.0)}, "threshold"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "words"), WRONG)
def test_wrong_tables_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ss.errors.InvalidModel, match=words):
        ward(**changes)


@pytest.mark.parametrize(("reward", "constraints"), [([1.0], 0), ("x", 0), (0, [[1]]), (np.nan, 0)])
def test_wrong_endings_are_refused(reward: Any, constraints: Any) -> None:
    with pytest.raises(ss.errors.InvalidModel, match="an ending"):
        ss.gym.Ending(reward, constraints)


@pytest.mark.parametrize(
    ("name", "horizon", "free", "limited"),
    [("4x4", 20, 0.199133, 0.196105), ("8x8", 40, 0.120453, 0.113072)],
)
def test_the_frozen_lake(name: str, horizon: int, free: float, limited: float) -> None:
    problem = ss.problems.make("frozen-lake", map_name=name)
    cmdp = problem.cmdp
    assert horizon == cmdp.H
    assert problem.interface["start"] == 0
    assert ss.solve(cmdp.with_thresholds([1.0])).value == pytest.approx(free, abs=1e-6)
    best = ss.solve(cmdp)
    assert best.value == pytest.approx(limited, abs=1e-6)
    assert best.constraints[0] == pytest.approx(0.05, abs=1e-8)
    assert ss.slater(cmdp).margin == pytest.approx(0.05, abs=1e-6)


def test_the_taxi() -> None:
    problem = ss.problems.make("taxi")
    cmdp = problem.cmdp
    assert (cmdp.S, cmdp.A, cmdp.H) == (501, 6, 20)
    assert np.count_nonzero(cmdp.start) == 300
    assert ss.solve(cmdp.with_thresholds([20.0])).value == pytest.approx(1.0, abs=1e-8)
    best = ss.solve(cmdp)
    assert best.value == pytest.approx(3073 / 3900, abs=1e-8)
    assert best.multipliers == pytest.approx([1 / 13], abs=1e-7)
    assert ss.slater(cmdp).margin == pytest.approx(8.0, abs=1e-7)


def test_a_delivered_passenger_stays_delivered() -> None:
    # Gymnasium's table goes on from the state of the delivery; ours must not.
    cmdp = ss.problems.make("taxi").cmdp
    town: Any = TaxiEnv()
    aboard = int(town.encode(0, 0, 4, 0))  # in the taxi, at its destination
    row = cmdp.transitions[0][[aboard * 6 + 5]].toarray().ravel()
    assert row[500] == 1.0
    assert cmdp.rewards[0, aboard, 5] == 1.0
    assert cmdp.rewards[0, 500].max() == 0.0


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("frozen-lake", {"map_name": "6x6"}),
        ("frozen-lake", {"map_name": None}),
        ("frozen-lake", {"horizon": 0}),
        ("frozen-lake", {"limit": -0.1}),
        ("frozen-lake", {"size": 4}),
        ("taxi", {"horizon": 2.5}),
        ("taxi", {"fuel": 21}),
        ("taxi", {"fuel": "full"}),
    ],
)
def test_wrong_options_are_refused(name: str, options: dict[str, Any]) -> None:
    with pytest.raises((ss.errors.InvalidOption, ss.errors.InvalidModel)):
        ss.problems.make(name, **options)
