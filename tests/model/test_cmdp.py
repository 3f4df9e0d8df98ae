"""The true model: what it takes, what it refuses and in which words, and that it stays as it is."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import safespot as ss
from tests.support.models import BREAKS, Arguments, broken, random_policy, tables, valid


def plain(**changes: Any) -> Arguments:
    """Eight states, two actions, five steps, two constraints; everything spelled out."""
    S, A, H, m = 8, 2, 5, 2
    arguments: Arguments = {
        "transitions": np.full((H, S, A, S), 1 / S),
        "rewards": np.full((H, S, A), 0.5),
        "constraints": np.full((m, H, S, A), 0.5),
        "thresholds": np.full((m, H), 0.25),
    }
    return {**arguments, **changes}


def altered(array: Any, index: Any, value: Any) -> Any:
    changed = np.array(array)
    changed[index] = value
    return changed


def as_dense(transitions: Any, shape: tuple[int, ...]) -> Any:
    if isinstance(transitions, list):
        return np.stack([matrix.toarray() for matrix in transitions]).reshape(shape)
    return transitions


@given(valid(feasible=False))
def test_a_model_says_what_the_user_said(arguments: Arguments) -> None:
    cmdp, t = ss.CMDP(**arguments), tables(arguments)
    m, H, S, A = t.constraints.shape
    assert (cmdp.m, cmdp.H, cmdp.S, cmdp.A) == (m, H, S, A)
    np.testing.assert_array_equal(cmdp.rewards, t.rewards)
    np.testing.assert_array_equal(cmdp.constraints, t.constraints)
    np.testing.assert_array_equal(cmdp.thresholds, t.thresholds)
    np.testing.assert_array_equal(as_dense(cmdp.transitions, (H, S, A, S)), t.transitions)
    np.testing.assert_array_equal(cmdp.start, arguments["start"])
    np.testing.assert_allclose(cmdp.limits, t.thresholds.sum(axis=1), rtol=1e-14)
    assert cmdp.senses == t.senses
    assert cmdp.reward_range == t.reward_range
    np.testing.assert_array_equal(cmdp.constraint_ranges, t.constraint_ranges)
    if "actions" in arguments:
        assert cmdp.actions is not None
        np.testing.assert_array_equal(np.broadcast_to(cmdp.actions, (H, S, A)), t.mask)
    else:
        assert cmdp.actions is None
    assert f"S={S} A={A} H={H} m={m}" in repr(cmdp)


@given(arguments=valid(feasible=False))
def test_a_model_survives_save_and_load(
    arguments: Arguments, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("models") / "model"
    cmdp = ss.CMDP(**arguments)
    cmdp.save(path)
    again = ss.CMDP.load(path)
    assert again == cmdp
    for mine, theirs in zip(_leaves(cmdp.model), _leaves(again.model), strict=True):
        assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
        np.testing.assert_array_equal(mine, theirs)
    # What was kept once is kept once again.
    assert again.rewards.strides == cmdp.rewards.strides
    assert again.constraints.strides == cmdp.constraints.strides


def _leaves(value: Any) -> list[Any]:
    return [leaf for v in value for leaf in _leaves(v)] if isinstance(value, tuple) else [value]


@pytest.mark.parametrize(
    "change",
    [
        {"rewards": altered(plain()["rewards"], (0, 0, 0), 0.75)},
        {"constraints": altered(plain()["constraints"], (1, 4, 7, 1), 0.75)},
        {"thresholds": altered(plain()["thresholds"], (1, 4), 0.75)},
        {"start": 1},
        {"start": np.eye(8)[0]},
        {"senses": "<="},
        {"reward_range": (0, 2)},
        {"constraint_ranges": (0, 2)},
        {"actions": np.ones((8, 2), bool)},
        {"transitions": np.broadcast_to(np.eye(8)[:, None], (5, 8, 2, 8))},
    ],
)
def test_models_that_differ_are_unequal(change: Arguments) -> None:
    assert ss.CMDP(**plain()) == ss.CMDP(**plain())
    assert ss.CMDP(**plain(**change)) != ss.CMDP(**plain())
    assert ss.CMDP(**plain()) != "a model"


@pytest.mark.parametrize("what", sorted(BREAKS))
@settings(max_examples=6)
@given(data=st.data())
def test_a_broken_model_is_refused(what: str, data: st.DataObject) -> None:
    arguments = data.draw(broken(what))
    with pytest.raises(ss.errors.InvalidModel) as caught:
        ss.CMDP(**arguments)
    message = str(caught.value)
    assert len(message) > 20
    assert message.endswith(".")
    assert caught.value.__cause__ is None  # no foreign error is shown with it
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


P, R, G = (plain()[k] for k in ("transitions", "rewards", "constraints"))
PLACES: list[tuple[Arguments, list[str]]] = [
    ({"rewards": altered(R, (3, 7, 1), 1.5)}, ["reward at step 3, state 7, action 1 is 1.5"]),
    ({"constraints": altered(G[:, 0], (1, 7, 0), 2)}, ["constraint 1 at state 7, action 0"]),
    ({"thresholds": [1.0, 5.5]}, ["threshold of constraint 1 is 5.5 an episode", "give 0 to 5."]),
    ({"transitions": altered(P, (3, 7, 1), 0.25)}, ["step 3, state 7, action 1", "sum to 2.0"]),
    ({"transitions": [sparse.csr_array(P[0].reshape(16, 8))] * 4 + [sparse.eye_array(8)]}, ["step 4", "(16, 8)"]),
    ({"actions": altered(np.ones((8, 2), bool), 7, False)}, ["actions allow no action at state 7"]),
    ({"rewards": R[:4]}, ["H", "transitions say 5", "rewards say 4"]),
    ({"start": 8}, ["start is state 8", "0 to 7"]),
    ({"constraint_ranges": [(0, 1), (1, 0)]}, ["constraint_ranges[1]", "low < high"]),
    ({"constraints": G[..., :1]}, ["constraints have shape (2, 5, 8, 1)", "A = 2"]),
]  # fmt: skip


@pytest.mark.parametrize(("change", "words"), PLACES)
def test_the_message_names_the_place(change: Arguments, words: list[str]) -> None:
    with pytest.raises(ss.errors.InvalidModel) as caught:
        ss.CMDP(**plain(**change))
    for word in words:
        assert word in str(caught.value)


def test_the_number_of_steps_must_be_said_somewhere() -> None:
    still = {k: plain()[k][0] for k in ("transitions", "rewards")}
    arguments = plain(**still, constraints=G[:, 0], thresholds=[1.0, 1.0])
    with pytest.raises(ss.errors.InvalidModel, match="horizon="):
        ss.CMDP(**arguments)
    assert ss.CMDP(**arguments, horizon=5).H == 5


def test_a_row_that_nobody_can_reach_need_not_be_a_distribution() -> None:
    mask = altered(np.ones((8, 2), bool), (7, 1), False)
    ss.CMDP(**plain(transitions=altered(P, (slice(None), 7, 1), 0.0), actions=mask))
    with pytest.raises(ss.errors.InvalidModel, match="state 7, action 0"):
        ss.CMDP(**plain(transitions=altered(P, (slice(None), 7, 0), 0.0), actions=mask))
    # A time-homogeneous row is needed if its pair is admissible at any step.
    sometimes = altered(np.ones((5, 8, 2), bool), (slice(0, 4), 7, 1), False)
    with pytest.raises(ss.errors.InvalidModel, match="state 7, action 1"):
        ss.CMDP(**plain(transitions=altered(P[0], (7, 1), 0.0), actions=sometimes))


@given(valid(feasible=False))
def test_a_model_is_frozen(arguments: Arguments) -> None:
    cmdp = ss.CMDP(**arguments)
    with pytest.raises(AttributeError, match="frozen"):
        cmdp.rewards = np.zeros(1)
    with pytest.raises(AttributeError, match="frozen"):
        cmdp.new = 1
    outside = [cmdp.rewards, cmdp.constraints, cmdp.thresholds, cmdp.start, cmdp.actions]
    for array in [*outside, *_leaves(cmdp.model)]:
        if isinstance(array, np.ndarray):
            assert not array.flags.writeable


@given(valid(feasible=False))
def test_the_callers_arrays_are_not_shared(arguments: Arguments) -> None:
    cmdp, same = ss.CMDP(**arguments), ss.CMDP(**arguments)
    assert cmdp == same
    rows = arguments["transitions"]
    parts = [part for row in (rows if isinstance(rows, list) else [rows]) for part in _parts(row)]
    names = ("rewards", "constraints", "thresholds", "start", "actions")
    for array in [*parts, *(arguments[name] for name in names if name in arguments)]:
        if isinstance(array, np.ndarray):
            array[...] = 0
    again = ss.CMDP(**{**plain(), "transitions": cmdp.transitions, "rewards": cmdp.rewards,
                       "constraints": cmdp.constraints, "thresholds": cmdp.thresholds,
                       "start": cmdp.start, "senses": cmdp.senses, "actions": cmdp.actions,
                       "reward_range": cmdp.reward_range,
                       "constraint_ranges": cmdp.constraint_ranges})  # fmt: skip
    for mine, theirs in zip(_leaves(cmdp.model), _leaves(same.model), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(cmdp.rewards, again.rewards)
    policy = random_policy(np.ones((cmdp.H, cmdp.S, cmdp.A)), np.random.default_rng(0))
    if cmdp.actions is None:
        assert ss.evaluate(cmdp, policy).value == ss.evaluate(same, policy).value


def _parts(matrix: Any) -> list[Any]:
    return [matrix if isinstance(matrix, np.ndarray) else matrix.data]


def test_no_view_of_the_callers_array_reaches_inside() -> None:
    rewards = np.full((5, 8, 2), 0.5)
    view = rewards[:]  # stays writable when its base is frozen
    rewards.flags.writeable = False
    cmdp = ss.CMDP(**plain(rewards=rewards))
    view[:] = 0.25
    assert (cmdp.rewards == 0.5).all()


def test_other_thresholds_share_everything_else() -> None:
    cmdp = ss.CMDP(**plain())
    other = cmdp.with_thresholds([1.0, 0.5])
    assert np.shares_memory(other.model.payoffs, cmdp.model.payoffs)
    np.testing.assert_allclose(other.limits, [1.0, 0.5], rtol=1e-15)
    assert other == ss.CMDP(**plain(thresholds=[1.0, 0.5]))
    assert other != cmdp
    with pytest.raises(ss.errors.InvalidModel, match="threshold of constraint 1"):
        cmdp.with_thresholds([1.0, 99.0])


def test_a_large_sparse_model_stays_small() -> None:
    S, A, H, k = 716, 25, 20, 85
    rng = np.random.default_rng(0)
    where = (rng.integers(0, S, (S * A, 1)) + 8 * np.arange(k)) % S
    rows = sparse.csr_array(
        (np.full(S * A * k, 1 / k), where.ravel(), np.arange(0, S * A * k + 1, k)), shape=(S * A, S)
    )
    rewards, constraints = rng.random((S, A)), rng.random((2, S, A))
    given = (rows, rewards, constraints, [1.0, 2.0])
    ss.CMDP(*given, horizon=H)  # what the compiler keeps is not the model's
    tracemalloc.start()
    try:
        cmdp = ss.CMDP(*given, horizon=H)
        kept, max_deficit = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # 1.5 million entries of 12 bytes are 18 MB; a dense [S,A,S] block alone would be 103 MB.
    assert kept < 30e6
    assert max_deficit < 80e6
    assert sum(array.nbytes for array in _leaves(cmdp.model)) < 20e6
    assert cmdp.model.P.probabilities.shape == (S * A * k,)


@given(valid(feasible=False, layouts=("dense",)), st.integers(0, 2**32 - 1))
def test_dense_and_sparse_agree(arguments: Arguments, seed: int) -> None:
    P = np.asarray(arguments["transitions"])
    blocks = [
        sparse.csr_array(block.reshape(-1, P.shape[-1])) for block in P.reshape(-1, *P.shape[-3:])
    ]
    rows = {**arguments, "transitions": blocks if P.ndim == 4 else blocks[0]}
    policy = random_policy(tables(arguments).mask, np.random.default_rng(seed))
    dense, other = (ss.evaluate(ss.CMDP(**a), policy) for a in (arguments, rows))
    np.testing.assert_allclose(other.value, dense.value, rtol=0, atol=1e-12)
    np.testing.assert_allclose(other.constraints, dense.constraints, rtol=0, atol=1e-12)


def test_unsorted_and_repeated_sparse_entries_are_put_in_order() -> None:
    # Row 0 holds state 1 twice, out of order; the caller's matrix stays as it was.
    rows = sparse.csr_array(
        (np.array([0.25, 0.5, 0.25, 1.0]), np.array([1, 0, 1, 1]), np.array([0, 3, 4])),
        shape=(2, 2),
    )
    cmdp = ss.CMDP(rows, [[0.1], [0.9]], [[[0.5], [0.5]]], [[0.0, 0.0]])
    np.testing.assert_array_equal(cmdp.model.P.successors, [0, 1, 1])
    np.testing.assert_array_equal(cmdp.model.P.probabilities, [0.5, 0.5, 1.0])
    np.testing.assert_array_equal(rows.indices, [1, 0, 1, 1])
    assert ss.evaluate(cmdp, np.ones((2, 1))).value == pytest.approx(0.1 + 0.5, abs=1e-15)


SPARSE: Any = sparse.csr_array(np.array([[0.5, 0.5], [0.0, 1.0]]))


def two_states(transitions: Any, horizon: int = 2) -> ss.CMDP:
    """One action, two states."""
    return ss.CMDP(transitions, [[0.1], [0.9]], [[[0.5], [0.5]]], [0.5], horizon=horizon)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "lil", "dok", "dia"])
def test_every_kind_of_sparse_matrix_serves(kind: str) -> None:
    cmdp = two_states(SPARSE.asformat(kind))
    np.testing.assert_array_equal(cmdp.transitions[0].toarray(), SPARSE.toarray())


@pytest.mark.parametrize("axis", ["row", "col"])
def test_coordinates_beyond_the_matrix_are_refused(axis: str) -> None:
    damaged = SPARSE.tocoo(copy=True)
    getattr(damaged, axis)[0] = 2
    with pytest.raises(ss.errors.InvalidModel, match="coordinates out of bounds"):
        two_states(damaged)


def test_a_list_of_rows_that_lead_nowhere_is_refused() -> None:
    damaged = SPARSE.tolil()
    damaged.rows[0] = [0, 2]
    with pytest.raises(ss.errors.InvalidModel, match="not a valid sparse matrix"):
        two_states(damaged)


@pytest.mark.parametrize("horizon", [2, 3])
@pytest.mark.parametrize("layout", [np.array, list])
def test_a_problem_is_stationary_if_no_step_differs(horizon: int, layout: Any) -> None:
    rows = [SPARSE] * horizon
    others = [*rows[1:], sparse.csr_array(np.array([[0.25, 0.75], [0.0, 1.0]]))]
    ended = [*rows[1:], sparse.csr_array(np.array([[1.0, 0.0], [0.0, 1.0]]))]
    copies = [matrix.copy() for matrix in rows]
    for blocks, alike in ((rows, True), (copies, True), (others, False), (ended, False)):
        transitions: Any = blocks
        if layout is np.array:
            transitions = np.stack([block.toarray()[:, None] for block in blocks])
        cmdp = two_states(transitions, horizon)
        assert ss.Problem(cmdp).stationary is alike


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (np.full((5, 8, 2), 0.6), "step 0, state 0 sums to 1.2"),
        (
            altered(np.full((5, 8, 2), 0.5), (3, 7), [-0.5, 1.5]),
            "policy at step 3, state 7, action 0",
        ),
        (altered(np.full((5, 8, 2), 0.5), (3, 7, 1), np.nan), r"policy\[3, 7, 1\] is nan"),
        (np.full((4, 8, 2), 0.5), r"shape \(4, 8, 2\)"),
        ("best", "real numbers"),
    ],
)
def test_a_wrong_policy_is_refused(policy: Any, words: str) -> None:
    with pytest.raises(ss.errors.InvalidModel, match=words):
        ss.CMDP(**plain()).policy(policy)


def test_a_policy_keeps_to_the_admissible_actions() -> None:
    cmdp = ss.CMDP(**plain(actions=altered(np.ones((8, 2), bool), (7, 1), False)))
    with pytest.raises(ss.errors.InvalidModel, match="step 0, state 7, action 1, which is"):
        cmdp.policy(np.full((8, 2), 0.5))
    stationary = altered(np.full((8, 2), 0.5), 7, [1.0, 0.0])
    assert cmdp.policy(stationary).shape == (5, 8, 2)


def test_a_file_of_a_model_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    from safespot.files import write_arrays

    path = tmp_path / "model"
    write_arrays(path, "cmdp", {"rewards": np.zeros((1, 1, 1))}, {"horizon": 1, "states": 1})
    with pytest.raises(ss.errors.InvalidFile, match="does not describe a CMDP"):
        ss.CMDP.load(path)
