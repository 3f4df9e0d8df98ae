"""`SpotEpochs`: phases and trials against a plain reading, what it proves, what it does with what it is given."""

from __future__ import annotations

import itertools
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from studies.epoch_proofs import Shrunk, tempting

import safespot as ss
from safespot.evidence.certificate import policy_digest
from safespot.evidence.trial import OPEN
from safespot.learners import phases
from safespot.learners.exploring import Exploration, explore
from safespot.learners.proposals import plan_with_margin
from safespot.planning.errors import standard_errors
from tests.evidence import reference
from tests.support.contract import saved

Array = Any
DOSING = ss.problems.make("dosing")


def coin(
    mean: float, limit: float, *, horizon: int = 2, sense: str = ">=", m: int = 1
) -> ss.Problem:
    """One state, two actions that differ in reward alone: every policy has V_g = horizon * mean."""
    cmdp = ss.CMDP(
        np.ones((1, 2, 1)), [[0.3, 0.7]], np.full((m, 1, 2), mean), np.full(m, limit),
        senses=sense, horizon=horizon,
    )  # fmt: skip
    return ss.Problem(cmdp)


def small(**changes: Any) -> ss.Problem:
    return ss.problems.make(
        "random", **{"states": 5, "actions": 3, "horizon": 4, "seed": 2, **changes}
    )


class Watched(ss.SpotEpochs):
    """Writes down every part of every phase: (episodes before it, what it is, the phase, its policy)."""

    def __init__(self, *interface: Any, **options: Any) -> None:
        self.parts: list[tuple[int, int, int, str]] = []
        super().__init__(*interface, **options)
        self._note()

    def settle(self) -> None:
        super().settle()
        self._note()

    def _note(self) -> None:
        clock = self.state.clock
        now = (
            int(clock[phases.PART]),
            int(clock[phases.PHASE]),
            policy_digest(self.state.pi),
        )
        if not self.parts or self.parts[-1][1:] != now:
            self.parts.append((int(self.state.finished[0]), *now))


# --- Phases


def test_phases_are_as_long_as_all_before_them_and_freeze_what_they_try() -> None:
    learner = Watched(**DOSING.interface)
    ss.learn(DOSING, learner, 3000, seed=1)
    begins: dict[int, int] = {}
    trials: dict[int, list[tuple[int, str]]] = {}
    explored: dict[int, int] = {}
    for t, part, phase, digest in learner.parts:
        begins.setdefault(phase, t)
        if part == phases.TRYING:
            trials.setdefault(phase, []).append((t, digest))
            explored[phase] = t - begins[phase]
    assert begins[1] == 0
    assert len(begins) >= 6
    last = max(begins)
    for phase in range(2, last):
        if not any(p == phase and part == phases.RETREATED for _, part, p, _ in learner.parts):
            length = max(begins[phase], 64)
            assert begins[phase + 1] - begins[phase] <= length
        if phase in trials:
            assert len({digest for _, digest in trials[phase]}) == 1
            assert 1 <= explored[phase] <= math.ceil(max(begins[phase], 64) / 2)
    assert begins[2] <= 64
    # Exploring plans change while they are played, at most once in a hundredth of all episodes.
    plans = [t for t, part, _, _ in learner.parts if part == phases.EXPLORING]
    gaps = [(a, b - a) for a, b in itertools.pairwise(plans)]
    assert len(plans) > 20
    assert all(gap >= max(1, a // 100) for a, gap in gaps)


@pytest.mark.parametrize("mean", [0.8, 0.65, 0.3])
def test_a_trial_decides_as_its_bounds_do_read_slowly(mean: float) -> None:
    """Known limits: verdict and bounds of every trial, from the episodes that its policy played."""
    problem = coin(mean, 1.0)
    learner = ss.SpotEpochs(**problem.interface, thresholds=[1.0])
    streams, trial, issued, broken = ss.streams(3), Slow(1, 64), 0, 0
    for _ in range(300):
        clock = learner.state.clock
        k = int(clock[phases.PHASE])
        if trial.phase != k and clock[phases.PART] == phases.TRYING:
            trial = Slow(k, phases.trial_length(clock, learner.recipe.first_phase))
        playing = clock[phases.PART] in (phases.FIRST, phases.TRYING)
        undecided = playing and clock[phases.VERDICT] == OPEN
        episode = ss.play(problem, learner.policy, streams, learner.episode)
        learner.observe(episode)
        if not undecided:
            continue
        low, high = trial.read(float(episode.constraints.sum()))
        if low >= 0.0:
            issued += 1
            made = learner.certificates[-1]
            assert made.episode == learner.episode - 1
            assert made.certificate.episodes == len(trial.x)
            bounds: Any = made.certificate.difference_bounds
            np.testing.assert_allclose(bounds, [[low], [high]], atol=1e-9)
            assert made.certificate.safe.all()
        assert len(learner.certificates) == issued
        ended = (
            learner.state.clock[phases.PHASE] > k
            or learner.state.clock[phases.PART] == phases.RETREATED
        )
        assert ended == (high < 0.0 or len(trial.x) == trial.length)
        broken += high < 0.0
    assert (issued, broken) != (0, 0)
    assert broken == 0 if mean > 0.5 else issued == 0


class Slow:
    """The bounds of V_g - 1 of one trial, from its episodes' totals in [0,2], read where the learner reads them."""

    def __init__(self, phase: int, length: int) -> None:
        self.phase, self.length, self.x = phase, length, []  # type: ignore[var-annotated]
        self.share = 0.9 * 0.05 * 6 / ((phase + 5) * (phase + 6))
        self.due, self.low, self.high = 1, 0.0, 0.0

    def read(self, total: float) -> tuple[float, float]:
        self.x.append(total / 2.0)
        n, x = len(self.x), np.array(self.x)
        if n >= self.due:
            self.due = n + max(1, n // 32)
            self.low = max(self.low, reference.fixed_mean(x, self.share, self.length))
            self.high = max(self.high, reference.fixed_mean(1.0 - x, self.share, self.length))
        return 2.0 * self.low - 1.0, 2.0 * (1.0 - self.high) - 1.0


# --- What is proven


@pytest.mark.parametrize("known", [True, False])
def test_hardly_any_run_certifies_a_policy_that_is_just_broken(known: bool) -> None:
    """Every policy breaks the limit, by less than a trial's radius: any certificate is false."""
    delta, runs, false = 0.2, 250, 0
    problem = coin(0.495, 1.0)
    for seed in range(runs):
        options: dict[str, Any] = {"thresholds": [1.0]} if known else {}
        learner = ss.SpotEpochs(**problem.interface, delta=delta, stance="optimistic", **options)
        ss.learn(problem, learner, 700, seed=seed, track="grid")
        false += bool(learner.certificates)
    assert false <= delta * runs


def test_bounds_with_a_third_of_their_radius_would_be_caught() -> None:
    """The count of false certificates has power: at delta = 0.2 it tells such bounds from right ones."""
    runs, false = 30, 0
    for seed in range(runs):
        problem, options = tempting(seed)
        learner = Shrunk(**problem.interface, delta=0.2, **options)
        ss.learn(problem, learner, 1000, seed=seed, track="grid")
        false += bool(learner.certificates)
    assert false > 0.2 * runs


def test_what_keeps_its_limit_with_room_is_certified_soon_and_what_breaks_it_is_left() -> None:
    roomy = coin(0.8, 1.0)
    learner = ss.SpotEpochs(**roomy.interface)
    ss.learn(roomy, learner, 200)
    assert learner.certificates
    assert learner.certificates[0].episode <= 64
    best = learner.certified
    assert best is not None
    assert best.certificate.covers(best.policy)
    assert best.certificate.verdict == ("safe",)
    bounds = best.certificate.difference_bounds
    assert bounds is not None
    assert bounds[0] <= 0.6 <= bounds[1]
    broken = coin(0.05, 1.5)
    left = Watched(**broken.interface)
    ss.learn(broken, left, 200)
    assert not left.certificates
    assert (
        next(t for t, _, phase, _ in left.parts if phase == 2) < 50
    )  # the trial ends with the proof


def test_the_best_of_what_is_certified_is_certified() -> None:
    problem = coin(0.8, 1.0)
    learner = ss.SpotEpochs(**problem.interface)
    ss.learn(problem, learner, 1000)
    best = learner.certified
    assert best is not None
    values = [ss.evaluate(problem.cmdp, each.policy).value for each in learner.certificates]
    assert values[0] == pytest.approx(1.0)  # the first is uniform
    assert ss.evaluate(problem.cmdp, best.policy).value == pytest.approx(1.4)


def test_drifting_thresholds_certify_nothing() -> None:
    problem = coin(0.9, 0.4)
    learner = ss.SpotEpochs(**problem.interface, window=0.5)
    ss.learn(problem, learner, 500)
    assert not learner.certificates
    low, high = learner.threshold_bounds
    assert low <= 0.4 <= high


# --- How well it does


def test_dosing_is_safe_soon_good_soon_and_proven() -> None:
    values, firsts, optimum = [], [], ss.solve(DOSING.cmdp).value
    for seed in (100, 101, 102):
        learner = ss.SpotEpochs(**DOSING.interface)
        run = ss.learn(DOSING, learner, 6000, seed=seed)
        found = ss.evaluate(DOSING.cmdp, learner.proposal)
        values.append(found.value / optimum)
        firsts.append(learner.certificates[0].episode if learner.certificates else math.inf)
        policies = [learner.proposal, *(each.policy for each in learner.certificates)]
        assert all(ss.evaluate(DOSING.cmdp, each).constraints[0] <= 6.0 for each in policies)
        after = run.strong_violation[-1] - np.interp(64, run.episodes, run.strong_violation)
        assert after / (6000 - 64) <= 0.003 * 14
    assert np.mean(values) >= 0.95
    assert np.median(firsts) <= 2500


def test_rewards_that_are_hard_to_find_are_found() -> None:
    sea = ss.problems.make("deep-sea")
    learner = ss.SpotEpochs(**sea.interface)
    run = ss.learn(sea, learner, 6000)
    assert ss.evaluate(sea.cmdp, learner.proposal).value >= 0.9 * run.optimum


def test_rare_events_are_proven_to_be_rare_enough() -> None:
    """Hazards that are seen 0.5 times in 40 steps: what is tried has the room that their range of 40 asks for."""
    maze = ss.problems.make("maze")
    learner = ss.SpotEpochs(**maze.interface)
    ss.learn(maze, learner, 5000, track="grid")
    assert learner.certificates
    for each in learner.certificates:
        assert ss.evaluate(maze.cmdp, each.policy).constraints[0] <= 0.5


def test_the_stance_moves_the_margin() -> None:
    """In the mean of some runs: breaks push every stance to the safe side, so one run may say otherwise."""
    problem = small()
    rooms = []
    for stance in ("pessimistic", 0.5, "optimistic"):
        found = []
        for seed in range(4):
            learner = ss.SpotEpochs(**problem.interface, stance=stance)
            ss.learn(problem, learner, 1000, seed=seed)
            found.append(ss.evaluate(problem.cmdp, learner.proposal).constraints)
        rooms.append(float(np.mean(found) - problem.cmdp.limits[0]))
    assert rooms[0] > rooms[1] > rooms[2]
    assert rooms[0] > 0.0 > rooms[2]


def test_what_breaks_showed_pushes_to_the_safe_side_under_every_stance() -> None:
    """The margin is taken off by an optimist; what the model was off by, and breaks in a row, never are."""
    problem, recipe = small(), ss.SpotEpochs.recipe
    learner = ss.SpotEpochs(**problem.interface)
    ss.learn(problem, learner, 500)
    needs, shown, last = np.array([0.05]), np.array([0.03]), np.array([-0.04])

    def room(side: float, **broken: Array) -> float:
        plan, wanted = plan_with_margin(
            learner._pessimistic(), learner.models.known, 500, np.array([1.0]), side, needs, recipe, **broken
        )  # fmt: skip
        reached = standard_errors(learner._pessimistic(), learner.models.known, plan.policy, 500)[
            0
        ][1]
        assert reached >= 1.0 + wanted[0] - 1e-9
        return float(wanted[0])

    margin = room(1.0)
    assert margin > 0.05
    assert room(0.0) == 0.0
    assert room(-1.0) == pytest.approx(-margin)
    for side in (1.0, 0.0, -1.0):
        assert room(side, shown=shown) == pytest.approx(
            side * room(1.0, shown=shown) + 0.03 * (1 - side)
        )
        assert room(side, last=last) >= -0.04 + margin - 1e-9
        assert room(side, last=np.array([0.2])) >= 0.4


@pytest.mark.parametrize("side", [1.0, 0.0, -1.0])
def test_what_exploring_fell_short_by_is_made_up_for_under_every_stance(side: float) -> None:
    problem = small()
    learner = ss.SpotEpochs(**problem.interface)
    ss.learn(problem, learner, 500)
    reached = []
    for owed in (0.0, 0.1 * learner.recipe.repayment):
        memory = learner.state.memory.copy()
        memory[phases.Memory.OWED] = owed
        plan, _ = explore(
            learner._optimistic(), learner.models.known, learner.state._replace(memory=memory),
            problem.cmdp.limits, side, learner.recipe,
        )  # fmt: skip
        reached.append(plan.values[1])
    assert reached[1] == pytest.approx(reached[0] + 0.1)


def test_the_less_is_left_to_learn_the_less_is_explored() -> None:
    problem = small()

    def exploration(episodes: int, *, sure: bool) -> Exploration:
        learner = ss.SpotEpochs(**problem.interface)
        ss.learn(problem, learner, episodes)
        return explore(

            learner._optimistic(), learner.models.known, learner.state, problem.cmdp.limits, 1.0, learner.recipe,
            sure=learner._pessimistic() if sure else None,
        )  # fmt: skip

    shares = [exploration(episodes, sure=True).share for episodes in (64, 1_000, 50_000)]
    assert shares[0] <= ss.SpotEpochs.recipe.exploring
    assert shares[0] > shares[1] > shares[2] > 0.0
    assert shares[0] > 4 * shares[2]
    halfway = exploration(1_000, sure=False)
    assert halfway.share == 0.0
    np.testing.assert_array_equal(halfway.plan.policy, exploration(1_000, sure=True).plan.policy)


def test_an_optimist_ends_near_the_limit_not_beyond_every_bound() -> None:
    learner = ss.SpotEpochs(**DOSING.interface, stance="optimistic")
    ss.learn(DOSING, learner, 6000, seed=0)
    assert any(part.verdict == "broken" for part in learner.history)
    doses = float(ss.evaluate(DOSING.cmdp, learner.proposal).constraints[0])
    assert 5.5 <= doses <= 6.6


# --- What it is given


def test_a_baseline_is_played_first_and_after_a_break() -> None:
    problem = small()
    safe = ss.slater(problem.cmdp).policy
    learner = Watched(**problem.interface, baseline=safe, stance="optimistic")
    assert (learner.policy == safe).all()
    ss.learn(problem, learner, 4000)
    retreats = [digest for _, part, _, digest in learner.parts if part == phases.RETREATED]
    certified = {policy_digest(np.array(each.policy)) for each in learner.certificates}
    assert retreats
    assert set(retreats) <= {policy_digest(np.array(safe)), *certified}
    with pytest.raises(ss.errors.InvalidOption, match="baseline"):
        ss.SpotEpochs(**problem.interface, baseline=np.ones((5, 3)))


def test_a_baseline_that_breaks_a_limit_is_left() -> None:
    problem = coin(0.1, 1.0)
    learner = ss.SpotEpochs(**problem.interface, baseline=[[0.5, 0.5]])
    with pytest.warns(UserWarning, match="baseline breaks a limit"):
        ss.learn(problem, learner, 200)
    assert learner.state.clock[phases.DISTRUSTED]


def test_a_trial_counts_only_what_its_policy_played(tmp_path: Path) -> None:
    problem = coin(0.8, 1.0)
    learner = ss.SpotEpochs(**problem.interface)
    other = np.array([[[1.0, 0.0]]] * 2)
    streams = ss.streams(0)
    for t in range(1, 41):
        learner.observe(ss.play(problem, other, streams, t), played=other)
    assert learner.episode == 41
    assert learner.state.trial.counted[0] == 0
    assert learner.statistics.n.sum() == 80
    learner.observe(ss.play(problem, learner.policy, streams, 41), played=learner.policy)
    learner.observe(
        ss.play(problem, learner.policy, streams, 42),
        played=policy_digest(np.array(learner.policy)),
    )
    learner.observe(ss.play(problem, other, streams, 43), played=policy_digest(other))
    assert learner.state.trial.counted[0] == 2
    with pytest.raises(ss.errors.InvalidOption, match="played"):
        learner.observe(ss.play(problem, other, streams, 44), played=[[2.0, 0.0]])


def test_the_budget_for_exploring_is_kept() -> None:
    """Exploring goes to what looks best, and its violation never exceeds what was allowed."""
    problem = ss.problems.make("dosing", tolerance=4.2)
    spent, explored = [], []
    for budget in (None, 20.0):
        learner = Watched(**problem.interface, explore_budget=budget)
        run = ss.learn(problem, learner, 3000, record="all")
        part = np.zeros(3000, int)
        for t, kind, _, _ in learner.parts:
            part[t:] = kind
        over = (run.constraint_values[:, 0] - 4.2)[part == phases.EXPLORING]
        spent.append(np.cumsum(over).max())
        explored.append(len(over))
    assert spent[1] <= 20.0 < spent[0]
    assert 0 < explored[1] < explored[0]
    with pytest.raises(ss.errors.InvalidOption, match="explore_budget"):
        ss.SpotEpochs(**problem.interface, explore_budget=1.0)


def test_a_log_is_counted_and_proves_nothing_about_a_policy() -> None:
    problem = small()
    uniform = ss.learners.make("uniform", problem.interface, episodes=1)
    streams = ss.streams(5)
    episodes = [ss.play(problem, uniform.policy, streams, t) for t in range(1, 301)]
    learner = ss.SpotEpochs(**problem.interface, log=episodes)
    assert learner.episode == 301
    assert learner.statistics.starts.sum() == 300
    assert learner.state.trial.counted[0] == 0
    clock = learner.state.clock
    assert clock[phases.PART] == phases.EXPLORING
    assert clock[phases.ENDS] <= 300 + 32
    ss.learn(problem, learner, 2000)
    cold = ss.SpotEpochs(**problem.interface)
    ss.learn(problem, cold, 2000)
    assert learner.state.clock[phases.PHASE] <= cold.state.clock[phases.PHASE] + 1


def test_known_payoffs_are_used_as_they_are() -> None:
    cmdp = DOSING.cmdp
    learner = ss.SpotEpochs(
        **DOSING.interface, known_rewards=cmdp.rewards[0], known_constraints=cmdp.constraints[:, 0]
    )
    ss.learn(DOSING, learner, 2000)
    assert ss.evaluate(cmdp, learner.proposal).value > 0.9 * ss.solve(cmdp).value
    for wrong in ({"known_rewards": np.zeros((2, 2))}, {"known_rewards": np.full((25, 5), 2.0)}):
        with pytest.raises(ss.errors.InvalidOption, match="known"):
            ss.SpotEpochs(**DOSING.interface, **wrong)


def test_totals_outside_of_what_was_declared_are_refused() -> None:
    problem = coin(0.9, 1.0)
    learner = ss.SpotEpochs(**problem.interface, constraint_totals=(0.0, 0.5))
    many = (ss.play(problem, learner.policy, ss.streams(seed), 1) for seed in range(100))
    over = next(episode for episode in many if episode.constraints.sum() > 0.5)
    with pytest.raises(ss.errors.InvalidEpisode, match="constraint_totals"):
        learner.observe(over)
    assert learner.episode == 1
    fresh = ss.SpotEpochs(**problem.interface, constraint_totals=(0.0, 0.5))
    with pytest.raises(ss.errors.InvalidEpisode, match="constraint_totals"):
        ss.learn(problem, fresh, 20)


# --- The same bits


@pytest.mark.parametrize(
    "options", [{}, {"thresholds": [0.7]}, {"window": 0.3}, {"stance": 0.8, "explore_budget": 60.0}]
)
def test_learning_is_playing_and_observing_and_going_on(
    options: dict[str, Any], tmp_path: Path
) -> None:
    problem = small()
    ours, theirs = (ss.SpotEpochs(**problem.interface, **options) for _ in range(2))
    ss.learn(problem, ours, 700, seed=4)
    streams = ss.streams(4)
    for t in range(1, 701):
        theirs.observe(ss.play(problem, theirs.policy, streams, t))
    assert saved(ours, tmp_path) == saved(theirs, tmp_path)
    stopped = ss.SpotEpochs(**problem.interface, **options)
    for n in (1, 63, 100, 236, 300):
        ss.learn(problem, stopped, n, seed=4)
        stopped.save(tmp_path / "stopped")
        stopped = ss.SpotEpochs.load(tmp_path / "stopped")
    assert saved(stopped, tmp_path) == saved(ours, tmp_path)
    assert stopped.proposal.tobytes() == ours.proposal.tobytes()
    assert len(stopped.certificates) == len(ours.certificates)


def test_a_durable_one_goes_on_where_it_stopped(tmp_path: Path) -> None:
    problem = coin(0.8, 1.0)
    streams = ss.streams(0)
    with ss.open(tmp_path / "ward", ss.SpotEpochs(**problem.interface)) as learner:
        for t in range(1, 150):
            learner.observe(ss.play(problem, learner.policy, streams, t))
        before = saved(learner.learner, tmp_path)
    with ss.open(tmp_path / "ward") as learner:
        assert saved(learner.learner, tmp_path) == before
        inner: Any = learner.learner
        assert inner.certificates


def test_units_and_senses_do_not_matter() -> None:
    plain = small()
    c = plain.cmdp
    P = c.model.P.dense[0].reshape(c.S, c.A, c.S)
    costly = ss.CMDP(
        P, 3.0 * c.rewards - 1.0, 8.0 - 4.0 * c.constraints, [8.0 * c.H - 4.0 * c.limits[0]],
        senses="<=", reward_range=(-1, 2), constraint_ranges=(4, 8), horizon=c.H,
    )  # fmt: skip
    ours, theirs = (ss.SpotEpochs(**p.interface) for p in (plain, ss.Problem(costly)))
    ss.learn(plain, ours, 4000, seed=2)
    ss.learn(ss.Problem(costly), theirs, 4000, seed=2)
    np.testing.assert_allclose(ours.policy, theirs.policy, atol=1e-9)
    np.testing.assert_allclose(ours.proposal, theirs.proposal, atol=1e-9)
    assert [a.episode for a in ours.certificates] == [b.episode for b in theirs.certificates]
    assert ours.certificates
    for one, two in zip(ours.certificates, theirs.certificates, strict=True):
        ours_, theirs_ = (np.array(each.certificate.difference_bounds) for each in (one, two))
        np.testing.assert_allclose(theirs_, 4.0 * ours_)
        assert two.certificate.verdict == ("safe",)


# --- Whether steps are alike


def test_problems_say_whether_their_steps_are_alike() -> None:
    assert small().interface["stationary"] is True
    c = small().cmdp
    P = np.repeat(c.model.P.dense.reshape(1, c.S, c.A, c.S), c.H, axis=0)
    same = ss.CMDP(P, c.rewards, c.constraints, c.limits)
    assert ss.Problem(same).interface["stationary"] is True
    P[1, 0, 0] = np.eye(c.S)[0]
    other = ss.CMDP(P, c.rewards, c.constraints, c.limits)
    assert ss.Problem(other).interface["stationary"] is False
    rewards = np.array(c.rewards)
    rewards[2, 0, 0] += 1e-3
    assert (
        ss.Problem(ss.CMDP(P[:1].repeat(c.H, 0), rewards, c.constraints, c.limits)).stationary
        is False
    )
    for wrong in (1, "yes", None):
        with pytest.raises(ss.errors.InvalidOption, match="stationary"):
            ss.SpotEpochs(**{**small().interface, "stationary": wrong})


def test_data_that_contradict_it_are_told_of_and_others_are_not() -> None:
    c = small().cmdp
    P = np.repeat(c.model.P.dense.reshape(1, c.S, c.A, c.S), c.H, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(5):
            ss.learn(small(), ss.SpotEpochs(**small().interface), 2000, seed=seed)
    P[2:] = np.roll(P[2:], 1, axis=3)
    changing = ss.Problem(ss.CMDP(P, c.rewards, c.constraints, c.limits))
    learner = ss.SpotEpochs(**{**changing.interface, "stationary": True})
    with pytest.warns(UserWarning, match=r"contradict it: state \d action \d"):
        ss.learn(changing, learner, 2000)
    honest = ss.SpotEpochs(**changing.interface)
    assert not honest.interface.stationary
    ss.learn(changing, honest, 4000)
    assert ss.evaluate(changing.cmdp, honest.proposal).value > 0.8 * ss.solve(changing.cmdp).value
