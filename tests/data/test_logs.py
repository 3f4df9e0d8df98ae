"""Logged episodes: read back as they were played, refused for a named reason, and counted as a learner counts them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import safespot as ss
from safespot.arrays import MARKS
from safespot.data import log_interface
from safespot.data.logs import columns
from safespot.data.model_files import read_cmdp, read_model
from tests.support.episodes import full_mask, random_episode, random_mask

NOTHING = ss.gym.Ending(reward=0, constraints=0)


def played(name: str, episodes: int, **options: Any) -> tuple[ss.Problem, list[ss.Episode]]:
    """A ready problem, and episodes of its uniform policy."""
    problem = ss.problems.make(name, **options)
    mask = full_mask(problem.cmdp.actions, problem.cmdp.H, problem.cmdp.S, problem.cmdp.A)
    policy, streams = mask / mask.sum(axis=2, keepdims=True), ss.streams(0)
    return problem, [ss.play(problem, policy, streams, t) for t in range(1, episodes + 1)]


def wild(
    seed: int, episodes: int = 40, H: int = 3, S: int = 4, A: int = 3, m: int = 2
) -> tuple[Any, list[ss.Episode]]:
    """An interface with a mask, and episodes that fit it; some steps carry no threshold sample."""
    rng = np.random.default_rng(seed)
    mask = random_mask(rng, H, S, A)
    interface = {
        "states": S, "actions": A, "horizon": H, "constraints": m, "start": None, "action_mask": mask,
        "senses": ">=", "ranges": None,
    }  # fmt: skip
    return interface, [
        random_episode(rng, mask, m, start=None, missing=0.2) for _ in range(episodes)
    ]


TABLE: dict[str, Any] = {
    "episode": [7, 7, 3, 3],
    "step": [0, 1, 0, 1],
    "state": [0, 1, 0, 0],
    "action": [1, 0, 0, 1],
    "reward": [0.5, 1.0, 0.0, 0.25],
    "constraint_0": [1.0, 0.0, 0.0, 0.5],
    "threshold_0": [0.5, None, 0.25, 0.75],
    "next_state": [1, 2, 0, 1],
}


def changed(column: str, row: int, value: Any) -> dict[str, Any]:
    """The table above with one other value."""
    values = list(TABLE[column])
    values[row] = value
    return {**TABLE, column: values}


# Reading


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("seed", range(3))
def test_what_is_written_is_read_again_to_the_last_bit(
    tmp_path: Path, ending: str, seed: int
) -> None:
    interface, episodes = wild(seed)
    path = tmp_path / f"it's a log.{ending}"
    ss.write_log(path, episodes)
    log = ss.read_log(path, **interface)
    assert log.rejected == ()
    assert list(log.episodes) == episodes
    assert str(log) == f"{path}: 40 of 40 episodes can be used."


def test_columns_come_from_memory_too() -> None:
    for source in (TABLE, pd.DataFrame(TABLE), pd.DataFrame(TABLE).convert_dtypes()):
        first, second = ss.read_log(source).episodes
        assert first.states.tolist() == [0, 1, 2]
        assert first.actions.tolist() == [1, 0]
        np.testing.assert_array_equal(first.thresholds.ravel(), [0.5, np.nan])
        assert second.states.tolist() == [0, 0, 1]  # episodes stay in the order of the log


def test_rows_may_come_in_any_order_and_with_other_columns() -> None:
    frame = pd.DataFrame({**TABLE, "probability": 0.5, "note": "x"})
    mixed = ss.read_log(frame.iloc[[1, 3, 0, 2]])
    assert list(mixed.episodes) == list(ss.read_log(TABLE).episodes)


def test_sizes_are_those_of_the_data_unless_given() -> None:
    said = ss.read_log(TABLE).interface
    assert (said["states"], said["actions"], said["horizon"], said["constraints"]) == (3, 2, 2, 1)
    assert (said["start"], said["action_mask"]) == (None, None)
    for odd in ("ward", 7.5, np.inf, -3):  # only whole numbers count
        assert ss.read_log(changed("state", 1, odd)).interface["states"] == 3
    assert ss.read_log(changed("next_state", 3, 5_000)).interface["states"] == 5_001
    log = ss.read_log(TABLE, states=5, actions=4, senses="<=")
    learner = ss.Spot(**log.interface, episodes=10, slack=0.5)
    for episode in log.episodes:
        learner.observe(episode)
    assert learner.episode == 3


@pytest.mark.parametrize(
    ("column", "row", "value", "reason"),
    [
        ("step", 1, 0, "step occurs twice"),
        ("step", 1, 5, "step lies beyond the 2 steps of an episode"),
        ("step", 1, 2, "step lies beyond the 2 steps of an episode"),
        ("step", 0, -1, "step follows a missing step"),
        ("step", 1, 0.5, "step is not a whole number"),
        ("step", 1, None, "step is not a whole number"),
        ("state", 1, 3, "state is not one of the 3 states"),
        ("state", 1, -1, "state is not one of the 3 states"),
        ("state", 1, 1.5, "state is not a whole number"),
        ("state", 1, "ward", "state is not a whole number"),
        ("state", 1, 2, "next_state is not the next step's state"),
        ("action", 0, 2, "action is not one of the 2 actions"),
        ("action", 0, np.nan, "action is not a whole number"),
        ("next_state", 1, 7, "next_state is not one of the 3 states"),
        ("next_state", 0, 2, "next_state is not the next step's state"),
        ("reward", 1, 1.5, "reward lies outside its declared range"),
        ("reward", 1, None, "reward is missing"),
        ("reward", 1, "high", "reward is not a finite number"),
        ("reward", 1, np.inf, "reward is not a finite number"),
        ("constraint_0", 0, -0.5, "constraint_0 lies outside its declared range"),
        ("constraint_0", 0, np.nan, "constraint_0 is missing"),
        ("threshold_0", 0, 2.0, "threshold_0 lies outside its declared range"),
        ("threshold_0", 0, "much", "threshold_0 is not a finite number"),
    ],
)
@pytest.mark.parametrize("ending", [None, "csv"])
def test_an_episode_with_a_wrong_value_is_left_out_and_named(
    tmp_path: Path, column: str, row: int, value: Any, reason: str, ending: str | None
) -> None:
    source: Any = changed(column, row, value)
    if ending is not None:
        pd.DataFrame(source).to_csv(tmp_path / "log.csv", index=False)
        source = tmp_path / "log.csv"
    log = ss.read_log(source, states=3, actions=2, horizon=2)
    assert log.reasons == {reason: 1}
    assert [e.states.tolist() for e in log.episodes] == [[0, 0, 1]]
    (rejection,) = log.rejected
    assert rejection.episode == 7
    assert f"{rejection.column} {rejection.reason}" == reason
    said = str(log).splitlines()
    assert said[0].endswith("1 of 2 episodes can be used.")
    assert said[1] == f"1 rejected: {reason}"
    known = not (column == "step" and value is None)  # else nothing says which step it is
    assert said[2].startswith("  episode 7, step " if known else "  episode 7: step ")


def test_a_missing_step_is_noticed() -> None:
    log = ss.read_log(changed("step", 1, 2), horizon=3, endings=NOTHING)
    assert log.reasons == {"step follows a missing step": 1}


def test_thresholds_of_a_step_are_all_there_or_all_absent() -> None:
    two = {**TABLE, "constraint_1": [0.0] * 4, "threshold_1": [0.5, None, None, 0.5]}
    log = ss.read_log(two)
    assert log.reasons == {"threshold_1 is missing": 1}
    assert log.rejected[0].episode == 3


def test_starts_and_masks_are_kept() -> None:
    mask = np.array([[True, True], [False, True], [True, True]])
    assert ss.read_log(TABLE, action_mask=mask).reasons == {"action is not admissible in its state": 1}  # fmt: skip
    assert ss.read_log(TABLE, start=1).reasons == {"state is not the start, 1": 2}


@pytest.mark.parametrize("seed", range(20))
def test_exactly_what_a_learner_can_observe_is_accepted(seed: int) -> None:
    interface, episodes = wild(seed, episodes=12)
    table = {name: column.astype(float) for name, column in columns(episodes).items()}
    rng = np.random.default_rng(1000 + seed)
    signals = [name for name in list(table)[1:] if name not in MARKS]
    for _ in range(4):  # numbers that may or may not be wrong where they now stand
        name = signals[rng.integers(len(signals))]
        table[name][rng.integers(len(table[name]))] = rng.choice([0, 1, 2, 0.5, 4, -1, 1.5, np.nan])
    log = ss.read_log(table, **interface)
    refused = {rejection.episode for rejection in log.rejected}
    learner = ss.learners.make("uniform", interface, episodes=100)
    for e in range(12):
        rows = table["episode"] == e
        part = {name: column[rows] for name, column in table.items()}
        if (part["step"] != [0, 1, 2]).any() or (part["next_state"][:-1] != part["state"][1:]).any():  # fmt: skip
            assert e in refused
            continue
        try:
            states = [*part["state"], part["next_state"][-1]]
            whole = [int(x) if x == int(x) else x for x in (*states, *part["action"])]
            kinds = ("constraint", "threshold")
            each = [np.stack([part[f"{kind}_{i}"] for i in (0, 1)], 1) for kind in kinds]
            learner.observe(ss.Episode(whole[:4], whole[4:], part["reward"], *each))  # type: ignore[arg-type]
        except ValueError:
            assert e in refused
        else:
            assert e not in refused


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({k: v for k, v in TABLE.items() if k not in ("action", "reward")}, "lacks the columns action, reward"),
        ({k: v for k, v in TABLE.items() if k != "constraint_0"}, r"lacks the column constraint_0; it has"),
        ({k: v for k, v in TABLE.items() if k != "threshold_0"}, "all the same, empty"),
        ({k: [] for k in TABLE}, "no rows"),
        (changed("episode", 2, None), r"row 2 \(from 0\) has an episode that is not a whole number"),
        (changed("episode", 1, 2.5), r"row 1 \(from 0\) has an episode that is not a whole number"),
        ({**TABLE, "reward": [0.5]}, "cannot read the log"),
        ({**TABLE, "reward": [[0.5], [0.5, 1]]}, "cannot read the log"),
        (changed("state", 0, 10**12), "largest numbers are to be believed"),
        (3, r"cannot read int as a log\. Expected a \.csv or \.parquet file"),
        (None, "cannot read NoneType as a log"),
    ],
)  # fmt: skip
def test_what_is_no_log_at_all(source: Any, words: str) -> None:
    with pytest.raises(ss.errors.InvalidFile, match=words):
        ss.read_log(source)


def test_wrong_files(tmp_path: Path) -> None:
    with pytest.raises(ss.errors.InvalidFile, match="file not found"):
        ss.read_log(tmp_path / "nothing.csv")
    with pytest.raises(ss.errors.InvalidFile, match=r"ends in \.csv or \.parquet"):
        ss.read_log(tmp_path / "log.xlsx")
    for name in ("log.csv", "log.parquet"):
        (tmp_path / name).write_bytes(b"\x00\xff\x00 nothing that could be read")
        with pytest.raises(ss.errors.InvalidFile):
            ss.read_log(tmp_path / name)
    ss.write_log(tmp_path / "whole.parquet", wild(0)[1])
    data = (tmp_path / "whole.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(data[: len(data) // 2])
    with pytest.raises(ss.errors.InvalidFile, match="cannot read"):
        ss.read_log(tmp_path / "cut.parquet")


def test_wrong_declarations() -> None:
    with pytest.raises(ss.errors.InvalidFile, match="1 constraint columns; the interface has 2"):
        ss.read_log(TABLE, constraints=2)
    with pytest.raises(ss.errors.InvalidOption, match="states must be at least 1"):
        ss.read_log(TABLE, states=0)
    with pytest.raises(ss.errors.InvalidOption, match="endings must be an Ending"):
        ss.read_log(TABLE, endings=0)  # type: ignore[arg-type]
    with pytest.raises(ss.errors.InvalidOption, match="each of the 1 constraints"):
        ss.read_log(TABLE, endings=ss.gym.Ending(0, [0, 0]))
    with pytest.raises(ss.errors.InvalidOption, match="at least one episode"):
        columns([])


@pytest.mark.parametrize("kind", ["plain", "durable"])
def test_a_learner_is_told_of_the_past_and_of_what_was_left_out(kind: str, tmp_path: Path) -> None:
    whole, cut = ss.read_log(TABLE), changed("reward", 3, 7.0)
    learner: Any = ss.Uniform(**whole.interface, episodes=20)
    if kind == "durable":
        learner = ss.open(tmp_path / "it", learner)
    assert len(ss.logs.warm_start(learner, TABLE).episodes) == 2  # and nothing is warned of
    assert (learner.episode, learner.learner.doubts.rejected) == (3, 0)
    said = r"1 of 2 episodes were left out \(1 because reward lies outside its declared range\)"
    with pytest.warns(UserWarning, match=said):
        log = ss.logs.warm_start(learner, cut)
    assert [rejection.episode for rejection in log.rejected] == [3]
    assert (learner.episode, learner.learner.doubts.rejected) == (4, 1)
    if kind == "durable":
        learner.close()
        with ss.open(tmp_path / "it") as again:
            assert (again.episode, again.learner.doubts.rejected) == (4, 1)


def test_sizes_that_are_guessed_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_interface, "ENTRIES", 3 * 2 * 2)
    ss.read_log(TABLE)
    monkeypatch.setattr(log_interface, "ENTRIES", 3 * 2 * 2 - 1)
    with pytest.raises(ss.errors.InvalidFile, match="'states': 3, 'actions': 2, 'horizon': 2"):
        ss.read_log(TABLE)
    ss.read_log(TABLE, states=3, actions=2, horizon=2)  # nothing is guessed


@pytest.mark.parametrize(("excess", "taken"), [(0.5e-9, 2), (2e-9, 1)])
def test_rounding_may_pass_an_end_of_a_range(excess: float, taken: int) -> None:
    for column, row, value in (("reward", 1, 1.0 + excess), ("constraint_0", 1, -excess)):
        assert len(ss.read_log(changed(column, row, value)).episodes) == taken


# Endings


def test_a_short_episode_needs_an_ending() -> None:
    short = {name: column[:3] for name, column in TABLE.items()}
    log = ss.read_log(short)
    (reason,) = log.reasons
    assert reason == "next_state ends an episode before its 2 steps, and no ending is declared for it"  # fmt: skip
    log = ss.read_log(short, endings=ss.gym.Ending(reward=0.25, constraints=0.75))
    whole, padded = log.episodes
    assert log.interface["states"] == 4  # the absorbing one is the last
    assert log.interface["action_mask"].tolist() == [[True, True]] * 3 + [[True, False]]
    assert whole.states.tolist() == [0, 1, 2]
    assert padded.states.tolist() == [0, 3, 3]
    assert padded.actions.tolist() == [0, 0]
    assert padded.rewards.tolist() == [0.0, 0.25]
    assert padded.constraints.ravel().tolist() == [0.0, 0.75]
    np.testing.assert_array_equal(padded.thresholds.ravel(), [0.25, np.nan])
    assert ss.solve(ss.logs.empirical_model(log).cmdp).value > 0.0


def test_endings_by_state() -> None:
    short = {name: column[:3] for name, column in TABLE.items()}
    log = ss.read_log(short, endings={2: NOTHING})
    assert log.rejected[0].column == "next_state"  # it ended in state 0
    assert log.episodes[0].states.tolist() == [0, 1, 3]  # at the horizon, and still an ending
    assert len(ss.read_log(short, endings={0: NOTHING, 2: NOTHING}).episodes) == 2


# The empirical model


@pytest.mark.parametrize("name", ["machine", "triage", "frozen-lake"])
@pytest.mark.parametrize("stationary", [False, True])
def test_counts_are_those_of_a_learner_bit_for_bit(name: str, stationary: bool) -> None:
    problem, episodes = played(name, 200)
    log = ss.read_log(columns(episodes), **problem.interface)
    model = ss.logs.empirical_model(log, stationary=stationary)
    learner = ss.learners.make("uniform", problem.interface, episodes=1000)
    for episode in episodes:
        learner.observe(episode)
    counted, (H, S, A) = learner.statistics, (problem.cmdp.H, problem.cmdp.S, problem.cmdp.A)
    followed = counted.successors.dense.reshape(H, S, S, A).transpose(0, 2, 3, 1)
    n = counted.n.reshape(H, S, A)
    sums = counted.sums.reshape(-1, H, S, A)
    if stationary:
        n, followed, sums = n.sum(0)[None], followed.sum(0)[None], sums.sum(1)[:, None]
    np.testing.assert_array_equal(model.visits, n)
    seen = n > 0
    P = np.array([matrix.toarray() for matrix in model.cmdp.transitions]).reshape(H, S, A, S)
    steps = slice(1) if stationary else slice(None)
    np.testing.assert_array_equal(P[steps][seen], followed[seen] / n[seen][:, None])
    inside = model.cmdp.model.payoffs.reshape(1 + problem.cmdp.m, len(n), S, A)
    for c, mean in enumerate(inside):
        np.testing.assert_allclose(mean[seen], sums[c][seen] / n[seen], rtol=0, atol=1e-15)
    declared = full_mask(problem.cmdp.actions, H, S, A)[: len(n)]
    missing = {tuple(row) for row in np.argwhere(declared & ~seen).tolist()}
    acted = {tuple(row) for row in model.unmet.tolist()}
    named = {tuple(row) for row in model.untried.tolist()}
    assert named == {pair for pair in missing if pair[:2] not in acted}
    assert {pair[:2] for pair in missing} >= acted


def test_the_model_comes_to_the_truth() -> None:
    problem, episodes = played("machine", 8_000)
    log = ss.read_log(columns(episodes), **problem.interface)
    for stationary in (False, True):
        model = ss.logs.empirical_model(log, stationary=stationary)
        assert model.cmdp.limits == pytest.approx(problem.cmdp.limits, abs=0.08)
        found, truth = ss.solve(model.cmdp), ss.solve(problem.cmdp)
        assert found.value == pytest.approx(truth.value, rel=0.02)
        assert model.cmdp.start == problem.cmdp.start
        run = ss.learn(
            ss.Problem(model.cmdp),
            ss.Spot(**ss.Problem(model.cmdp).interface, episodes=50, rho=1.0),
        )
        assert run.optimum == pytest.approx(found.value)


def test_what_was_never_tried_promises_nothing() -> None:
    # Action 0 earns 0.2 and was all that anybody did in state 0; action 1 was tried in state 1 only.
    table = {
        "episode": [0, 0, 1, 1], "step": [0, 1, 0, 1], "state": [0, 0, 1, 0], "action": [0, 0, 1, 0],
        "reward": [0.2, 0.2, 1.0, 0.2], "constraint_0": [1.0] * 4, "threshold_0": [0.5] * 4,
        "next_state": [0, 0, 0, 2],
    }  # fmt: skip
    model = ss.logs.empirical_model(ss.read_log(table))
    assert model.untried.tolist() == [[0, 0, 1], [0, 1, 0], [1, 0, 1]]
    assert model.unmet.tolist() == [[0, 2], [1, 1], [1, 2]]
    assert ss.solve(model.cmdp).value == pytest.approx((0.2 + 0.2 + 1.0 + 0.2) / 2)
    said = str(model)
    assert "3 actions were never tried and are inadmissible: step 0, state 0, action 1" in said
    assert "3 states were never acted in and count as the worst: step 0, state 2" in said
    # Pooled, state 2 is met: it may not look like a safe or a profitable place.
    pooled = ss.logs.empirical_model(ss.read_log(table), stationary=True)
    assert pooled.unmet.tolist() == [[0, 2]]
    assert pooled.cmdp.rewards[0, 2].tolist() == [0.0, 0.0]
    assert pooled.cmdp.constraints[0, 0, 2].tolist() == [0.0, 0.0]
    assert pooled.cmdp.transitions[0].toarray()[4, 2] == 1.0
    costs = ss.logs.empirical_model(ss.read_log(table, senses="<="), stationary=True)
    assert costs.cmdp.constraints[0, 0, 2].tolist() == [1.0, 1.0]
    assert "state 2" in str(pooled)
    assert "step" not in str(pooled).splitlines()[1]


def test_thresholds_may_be_known_and_must_be_where_there_are_no_samples() -> None:
    blind = {**TABLE, "threshold_0": [None] * 4}
    with pytest.raises(ss.errors.InvalidFile, match="no threshold samples"):
        ss.logs.empirical_model(ss.read_log(blind))
    known = ss.logs.empirical_model(ss.read_log(blind, limits=ss.Limit(threshold=0.5)))
    assert known.cmdp.limits.tolist() == [0.5]
    sampled = ss.logs.empirical_model(ss.read_log(TABLE))
    assert sampled.cmdp.thresholds.tolist() == [[0.375, 0.75]]
    once = ss.logs.empirical_model(ss.read_log({**TABLE, "threshold_0": [0.5, None, 0.25, None]}))
    assert once.cmdp.thresholds.tolist() == [[0.375, 0.375]]  # a step without any takes the mean
    pooled = ss.logs.empirical_model(ss.read_log(TABLE), stationary=True)
    assert pooled.cmdp.thresholds.tolist() == [[0.5, 0.5]]


def test_a_log_without_a_valid_episode_and_a_mask_that_moves() -> None:
    with pytest.raises(ss.errors.InvalidFile, match="no usable episodes"):
        ss.logs.empirical_model(ss.read_log(TABLE, start=1))
    mask = np.ones((2, 3, 2), np.bool_)
    mask[1, 2, 0] = False
    with pytest.raises(ss.errors.InvalidOption, match="the same at every step"):
        ss.logs.empirical_model(ss.read_log(TABLE, action_mask=mask), stationary=True)


# Files of one's own


def test_a_log_is_a_model_file_like_others(tmp_path: Path) -> None:
    _, episodes = played("machine", 50)
    ss.write_log(tmp_path / "log.parquet", episodes)
    options: dict[str, Any] = {
        "states": 2,
        "senses": "<=",
        "stationary": True,
        "ranges": {"reward": [0, 10], "constraints": [0, 4]},
    }
    log, model = read_model(tmp_path / "log.parquet", **options)
    assert len(log.episodes) == 50
    assert read_cmdp(tmp_path / "log.parquet", **options) == model.cmdp
    with pytest.raises(ss.errors.InvalidOption, match="unknown option 'wheels'"):
        read_cmdp(tmp_path / "log.parquet", wheels=4)
    model.cmdp.save(tmp_path / "model.safetensors")
    with pytest.raises(ss.errors.InvalidOption, match=r"unknown option 'senses'.*only logs"):
        read_cmdp(tmp_path / "model.safetensors", senses="<=")


def test_endings_from_toml(tmp_path: Path) -> None:
    pd.DataFrame(TABLE).iloc[:3].to_csv(tmp_path / "log.csv", index=False)
    for endings in ({"reward": 0, "constraints": 0}, {"0": {"reward": 0, "constraints": [0.5]}}):
        assert len(read_model(tmp_path / "log.csv", endings=endings)[0].episodes) == 2
    for wrong in ({"reward": 0}, {"x": {"reward": 0, "constraints": 0}}, {"0": 1}):
        with pytest.raises(ss.errors.InvalidOption, match=r"endings cannot be read|unknown"):
            read_cmdp(tmp_path / "log.csv", endings=wrong)


@pytest.mark.parametrize("given", [None, 3, [1], ["x"], [None], "text"])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_what_is_no_episode_is_not_written(ending: str, given: Any, tmp_path: Path) -> None:
    with pytest.raises(ss.errors.InvalidOption, match="expected episodes, got"):
        ss.write_log(tmp_path / f"log.{ending}", given)
    assert list(tmp_path.iterdir()) == []
