"""What `SpotEpochs` decides between two episodes, and what it remembers: each decision from a clock that is set."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.evidence.trial import difference_interval
from safespot.learners import epoch_trials, phases, stationarity
from safespot.learners.baselines.explore_then_plan import ExploreThenPlan
from safespot.learners.exploring import Exploration
from safespot.learners.phases import Memory
from safespot.learners.pooling import counts
from safespot.learners.threshold_totals import observe_totals, total_rates, total_state
from safespot.planning.process import best_plan
from safespot.spot import visits

H, FIRST = 2, ss.SpotEpochs.recipe.first_phase
FACE: dict[str, Any] = {"states": 1, "actions": 2, "horizon": H, "constraints": 1}


def episode(*g: float, x: float = 0.5) -> ss.Episode:
    """An episode whose steps all have these signals, one `g` for each constraint."""
    m = len(g)
    return ss.Episode(
        np.zeros(H + 1, int), np.zeros(H, int), np.ones(H), np.tile(g, (H, 1)), np.full((H, m), x)
    )


def at(learner: Any, **entries: int) -> Any:
    """The learner with its clock set, and something to decide."""
    clock = learner.state.clock
    clock[phases.DUE] = 1
    for name, value in entries.items():
        clock[getattr(phases, name)] = value
    return learner


# Phases


@pytest.mark.parametrize("part", [phases.EXPLORING, phases.TRYING])
def test_a_trial_lasts_from_the_end_of_exploring_to_the_end_of_the_phase(part: int) -> None:
    """A phase that began after 100 episodes is as long: it ends after 200."""
    learner = at(ss.SpotEpochs(**FACE), PART=part, BEGAN=100)
    clock = learner.state.clock
    clock[phases.ENDS], clock[phases.TRIED] = (130, 7) if part == phases.EXPLORING else (200, 130)
    assert phases.trial_length(clock, learner.recipe.first_phase) == 70


class Content(ExploreThenPlan):
    """One that sees nothing to learn by exploring."""

    def _exploration(self, state: Any) -> Exploration:
        return super()._exploration(state)._replace(share=0.0)


@pytest.mark.parametrize(
    ("kind", "explores"), [(Content, 1), (ss.learners.find("explore-then-plan"), FIRST // 3)]
)
def test_a_phase_explores_for_its_share_and_for_one_episode_at_least(
    kind: Any, explores: int
) -> None:
    learner = kind(**FACE)
    for _ in range(FIRST):
        learner.observe(episode(0.5))
    clock = learner.state.clock
    assert clock[phases.PART] == phases.EXPLORING
    assert clock[phases.BEGAN] == FIRST
    assert clock[phases.ENDS] == FIRST + explores
    assert clock[phases.GROWN] == 0
    np.testing.assert_array_equal(learner.state.planned, learner.state.visits)
    while learner.state.clock[phases.PART] == phases.EXPLORING:
        learner.observe(episode(0.5))
    assert learner.episode == FIRST + explores + 1
    assert learner.state.clock[phases.TRIED] == FIRST + explores
    assert learner.state.clock[phases.ENDS] == 2 * FIRST
    part = learner.history[-1]
    assert (part.phase, part.kind, part.first) == (2, "try", FIRST + explores + 1)


def test_what_the_model_was_off_by_counts_less_with_twice_the_data() -> None:
    learner = at(ss.SpotEpochs(**FACE), ENDS=0)
    learner.state.memory[Memory.ERROR] = 0.2
    learner.settle()
    assert learner.state.clock[phases.PHASE] == 2
    assert learner.state.memory[Memory.ERROR].tolist() == pytest.approx([0.2 / math.sqrt(2.0)])


@pytest.mark.parametrize("baseline", [None, [[1.0, 0.0]]])
@pytest.mark.parametrize("g", [(0.1,), (0.1, 0.3), (0.3, 0.2, 0.1)])
def test_a_break_shows_what_the_model_was_off_by(baseline: Any, g: tuple[float, ...]) -> None:
    """What was promised beyond the limit, less what the trial's episodes have shown."""
    learner: Any = ss.SpotEpochs(**{**FACE, "constraints": len(g)}, baseline=baseline)
    at(learner, PART=phases.TRYING, ENDS=FIRST)
    learner.state.clock[phases.DUE] = 0
    learner.state.memory[Memory.PROMISED] = 0.3
    while not learner.state.clock[phases.BREAKS]:
        before = learner.state
        learner.observe(episode(*g, x=0.9))
    limit = (before.lower + before.upper) / 2.0  # the bounds are written in place
    error = learner.state.memory[Memory.ERROR]
    assert learner.state.clock[phases.BREAKS] == 1
    np.testing.assert_allclose(error, 0.3 - (H * np.array(g) - limit))
    clock = learner.state.clock
    if baseline is None:  # the next phase
        assert (clock[phases.PART], clock[phases.PHASE]) == (phases.EXPLORING, 2)
    else:
        assert (clock[phases.PART], clock[phases.ENDS]) == (phases.RETREATED, FIRST)
        np.testing.assert_array_equal(learner.policy, [[[1.0, 0.0]]] * H)


def test_breaks_are_counted_in_a_row() -> None:
    cmdp = ss.CMDP(np.ones((1, 2, 1)), [[0.3, 0.7]], np.full((1, 1, 2), 0.2), [1.0], horizon=2)
    problem = ss.Problem(cmdp)
    learner = ss.SpotEpochs(**problem.interface)
    ss.learn(problem, learner, 600)
    tried = [part.verdict for part in learner.history if part.kind == "try"]
    ended = tried if learner.history[-1].kind != "try" else tried[:-1]
    in_a_row = len(list(itertools.takewhile(lambda verdict: verdict == "broken", ended[::-1])))
    assert learner.state.clock[phases.BREAKS] == in_a_row >= 2


def test_a_total_outside_of_what_was_declared_is_told_once() -> None:
    learner = at(ss.SpotEpochs(**FACE, constraint_totals=(0.0, 1.0)), OUTSIDE=1)
    with pytest.raises(ss.errors.InvalidEpisode, match="declared"):
        learner.settle()
    learner.settle()
    assert not learner.state.clock[phases.DUE]


def test_half_of_delta_is_for_the_thresholds_and_half_for_all_trials() -> None:
    learner = ss.SpotEpochs(**FACE, delta=0.1)
    assert learner._totals.level == total_rates(1, H, 0.05, limits=learner.declared.limits).level
    shares = [math.exp(-learner._trial_rates(k, 9).kept_level) / 0.8 for k in range(1, 4000)]
    assert sum(shares) == pytest.approx(0.05, rel=2e-3)


# Trials


def test_a_certificate_bounds_what_the_trial_has_shown() -> None:
    """Values and differences between their ends, from the rows of the trial; the reward likewise."""
    learner: Any = ss.SpotEpochs(**FACE)
    while not learner.certificates:
        trial = learner.state.trial
        learner.observe(episode(0.9, x=0.1))
    (made,) = learner.certificates
    found = made.certificate
    low, high = H * trial.lower[4], H * (1.0 - trial.lower[5])
    assert 0.0 < low < H * 0.9 < high <= H
    np.testing.assert_allclose(found.value_bounds, [[low], [high]])
    least, most = difference_interval(learner.declared, trial.lower, 0)
    np.testing.assert_allclose(found.difference_bounds, [[least], [most]])
    assert found.reward_bounds == pytest.approx((H * trial.lower[0], H * (1.0 - trial.lower[1])))
    assert found.episodes == made.episode == learner.episode - 1


def test_known_limits_and_differences_bound_the_value() -> None:
    learner: Any = ss.SpotEpochs(**FACE, thresholds=[0.8])
    while not learner.certificates:
        trial = learner.state.trial
        learner.observe(episode(0.9))
    found = learner.certificates[0].certificate
    least, most = difference_interval(learner.declared, trial.lower, 0)
    np.testing.assert_allclose(found.value_bounds, [[0.8 + least], [0.8 + most]])
    np.testing.assert_allclose(found.threshold_bounds, [[0.8], [0.8]])


@pytest.mark.parametrize("m", [1, 2, 3])
def test_threshold_samples_of_every_constraint_have_a_spread(m: int) -> None:
    limits = np.repeat([[0.0], [float(H)]], m, axis=1)
    rates = total_rates(m, H, 0.05, limits=limits)
    state, rng = total_state(rates, H), np.random.default_rng(0)
    lower, upper = limits.copy()
    for _ in range(20):
        observe_totals(rates, state, rng.random((H, m)), lower, upper)
    expected = H * np.sqrt([state.means.squares[2 * i] / 20.0 for i in range(m)])
    np.testing.assert_allclose(epoch_trials.hint_spread(rates, state, limits), expected)


# Whether steps are alike


def test_tables_that_are_too_large_are_not_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three states, two actions and two steps have 2 * 6 * 3 counts."""
    learner = ss.Uniform(3, 2, 2, 1, episodes=500)
    for k in range(200):  # state 0, action 0 leads elsewhere at each step
        states = np.array([0, 0, 1] if k % 2 else [0, 0, 2])
        learner.observe(ss.Episode(states, np.zeros(2, int), np.ones(2), np.ones((2, 1)), np.ones((2, 1))))  # fmt: skip
    for largest, found in ((36, [(0, 0)]), (35, [])):
        monkeypatch.setattr(stationarity, "LARGEST", largest)
        assert stationarity.contradictions(learner.statistics, 2) == found


@pytest.mark.parametrize(("pairs", "told"), [(5, r"action 0\. "), (7, r"action 0 and 2 more\. ")])
def test_five_of_the_pairs_that_contradict_it_are_named(pairs: int, told: str) -> None:
    """Rewards of 1 at the first step and of 0 at the second, in every state."""
    learner = ss.SpotEpochs(8, 1, 2, 1, start=None, stationary=True)
    learner.state.clock[phases.ENDS] = 20 * pairs
    seen = [
        ss.Episode(np.full(3, k % pairs), np.zeros(2, int), np.array([1.0, 0.0]), np.ones((2, 1)), np.full((2, 1), 0.5))
        for k in range(20 * pairs)
    ]  # fmt: skip
    for each in seen[:-1]:
        learner.observe(each)
    with pytest.warns(UserWarning, match=told):
        learner.observe(seen[-1])
    assert learner.state.clock[phases.PHASE] == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it was told once
        at(learner, PART=phases.TRYING, ENDS=0).settle()
    assert learner.state.clock[phases.PHASE] == 3


# What is given


@pytest.mark.parametrize("by_step", [False, True])
@pytest.mark.parametrize("known", [("rewards",), ("constraints",), ("rewards", "constraints")])
def test_known_payoffs_are_those_of_all_steps_or_of_each(
    by_step: bool, known: tuple[str, ...]
) -> None:
    """Rewards and constraints, in the units that they are declared in."""
    rng, shape = np.random.default_rng(0), (H, 1, 2) if by_step else (1, 2)
    rewards, constraints = rng.random(shape), rng.random((1, *shape))
    ranges = {"reward": (0.0, 2.0), "constraints": (0.0, 4.0)}
    given = {"rewards": rewards, "constraints": constraints}
    learner = ss.SpotEpochs(
        **FACE, ranges=ranges, **{f"known_{name}": given[name] for name in known}
    )
    payoffs, components = learner.models.known
    assert components.tolist() == ["rewards" in known, "constraints" in known]
    for c, expected in enumerate((rewards / 2.0, constraints / 4.0)):
        if components[c]:
            np.testing.assert_allclose(payoffs[c], expected.reshape(-1, 2))


# Logs and yardsticks


def test_the_first_phase_after_a_log_has_its_own_share_of_delta() -> None:
    """The log is the first trial of the policy that made it, so the second phase follows."""
    log = [episode(0.5) for _ in range(FIRST)]
    learner = ss.SpotEpochs(**FACE, log=log, behaviour=[[1.0, 0.0]])
    assert learner.state.clock[phases.PHASE] == 2
    share = 0.05 / 2.0 * 6 / (7 * 8)
    assert learner.rates.trial.kept_level == pytest.approx(math.log(1.0 / (0.8 * share)))


def test_a_log_is_counted_whatever_room_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists of successors grow while a log is read as they do while one plays."""
    monkeypatch.setattr(visits, "DENSE", 0)
    face: dict[str, Any] = {
        "states": 6,
        "actions": 1,
        "horizon": 2,
        "constraints": 1,
        "start": None,
    }
    walks = [np.array(walk) for walk in itertools.product(range(6), repeat=3)][::5]
    log = [
        ss.Episode(walk, np.zeros(2, int), np.ones(2), np.ones((2, 1)), np.ones((2, 1)))
        for walk in walks
    ]
    learner, other = ss.SpotEpochs(**face, log=log), ss.SpotEpochs(**face)
    for each in log:
        other.observe(each)
    assert len(learner.statistics.successors.counts) > 12  # as many as it began with
    np.testing.assert_array_equal(counts(learner.statistics), counts(other.statistics))
    assert counts(learner.statistics).sum() == 2 * len(log)


def test_where_no_successor_is_open_the_sampled_model_is_that_of_the_counts() -> None:
    """One pair, all payoffs known: whatever is drawn, a plan is worth what the optimistic one is."""
    known: dict[str, Any] = {"known_rewards": [[0.75]], "known_constraints": [[[0.5]]]}
    learner: Any = ss.learners.PosteriorSampling(**{**FACE, "actions": 1}, **known)
    for _ in range(8):
        learner.observe(episode(0.5))
        limits = np.zeros(1)
        learner.state.lower[:] = learner.state.upper[:] = limits
        expected = best_plan(learner._optimistic().process, limits)
        found = learner._exploration(learner.state).plan
        np.testing.assert_allclose(found.values, expected.values, rtol=1e-9)
