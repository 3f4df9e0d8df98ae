"""The guard: its account against the slow reading, who plays, what it says, and that it goes where a learner goes."""

from __future__ import annotations

import contextlib
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from studies import guard as study

import safespot as ss
from safespot.evidence.budget import UPPER
from safespot.gym.problem_env import ProblemEnv
from tests.evidence.reference import changing_sum
from tests.evidence.test_coverage import clopper_pearson

SAFE, RECKLESS = [[1, 0], [1, 0]], [[0, 1], [0, 1]]  # of `machine`: 1 below its limit, 4 above


@pytest.fixture
def problem() -> ss.Problem:
    return ss.problems.make("machine")


def uniform(problem: ss.Problem, **options: Any) -> ss.Learner:
    return ss.Uniform(**problem.interface, episodes=500, **options)


def by_hand(problem: ss.Problem, guard: ss.Guard, episodes: int, seed: int = 0) -> list[Any]:
    """Play and observe; who played each episode, the episode, and what was spent at most after it."""
    streams, seen = ss.streams(seed), []
    for t in range(guard.episode, guard.episode + episodes):
        turn, episode = guard.turn, ss.play(problem, guard.policy, streams, t)
        guard.observe(episode)
        seen.append((turn, episode, guard.spent[1].copy()))
    return seen


# The account


@pytest.mark.parametrize("credit", [True, False])
def test_the_account_is_the_recursion_of_the_page(credit: bool) -> None:
    """U*(t) = min(U(t), U*(t-1) + what an episode can cost if the learner played), and the turns that follow."""
    cmdp = ss.problems.make("triage").cmdp
    problem = ss.Problem(cmdp)
    m, most = cmdp.m, cmdp.H * np.abs(cmdp.units.constraints.scale)
    budget = most * np.linspace(2.0, 3.0, m)
    baseline = ss.slater(cmdp).policy
    guard = ss.Guard(uniform(problem), baseline, budget, delta=0.1, credit=credit)
    spent, counted = np.zeros(m), []
    sign = np.sign(cmdp.units.constraints.scale)
    for turn, episode, found in by_hand(problem, guard, 120):
        assert turn == ("learner" if (spent + most <= budget).all() else "baseline")
        if credit or turn == "learner":
            short = sign * (episode.thresholds - episode.constraints).sum(axis=0)
            counted.append((1.0 - short / most) / 2.0)  # D from [-most, most] to [0, 1]
            x, n = np.array(counted), len(counted)
            low = np.array([changing_sum(x[:, i], UPPER * 0.1 / m) for i in range(m)])
            upper = most * (n - 2.0 * low)
            spent = np.minimum(upper, spent + (most if turn == "learner" else 0.0))
        np.testing.assert_allclose(found, spent, rtol=1e-6, atol=1e-6)
    assert 0.0 < guard.share < 1.0


def test_a_hostile_learner_spends_the_budget_and_no_more() -> None:
    """Every episode of it costs all that one can, and the baseline earns nothing: exact, without noise."""
    world = study.of_problem(ss.Problem(study.cliff()))
    for budget in (1.0, 1.9, 4.0):
        hostile = ss.Fixed(**world.interface, episodes=60, policy=world.worst)
        guard = ss.Guard(hostile, world.baseline, budget)
        seen = by_hand(ss.Problem(study.cliff()), guard, 60)
        assert [turn for turn, *_ in seen].count("learner") == int(budget)
        assert guard.spent[1][0] == int(budget)
        assert guard.turn == "baseline"


def test_a_surplus_is_credit(problem: ss.Problem) -> None:
    """The baseline's room lets the learner play again; without credit it does not."""
    shares = {}
    for credit in (True, False):
        guard = ss.Guard(
            ss.Fixed(**problem.interface, episodes=900, policy=RECKLESS), SAFE, 16.0, credit=credit
        )
        by_hand(problem, guard, 900)
        shares[credit] = guard.share
        lower, upper = guard.spent
        assert (lower <= upper).all()
    assert shares[False] < 0.02 < shares[True]
    assert guard.baseline_verdict == ("safe",)


def short(action: int, reward: float, g: float, x: float) -> ss.Episode:
    """An episode of one step in a problem of one state."""
    seen: Any = [0, 0], [action], [reward], [[g]], [[x]]
    return ss.Episode(*seen)


def test_costs_and_floors_are_mirror_images() -> None:
    """The same process stated with a budget or with a floor has the same account."""
    found = []
    flips: dict[str, Any] = {"<=": lambda g: g, ">=": lambda g: 1.0 - g}
    for sense, flip in flips.items():
        costs = np.array([[[0.1, 0.9]]])
        cmdp = ss.CMDP(
            [[[1.0], [1.0]]], [[0.5, 1.0]], flip(costs), [flip(0.5)], horizon=1, senses=sense
        )
        learner = ss.Uniform(
            start=0, states=1, actions=2, horizon=1, constraints=1, senses=sense, episodes=50
        )
        guard = ss.Guard(learner, [[1.0, 0.0]], 3.0)
        rng = np.random.default_rng(0)
        for _ in range(50):
            g, x = rng.random(), rng.random()
            guard.observe(short(0, 0.5, flip(g), flip(x)))
        found.append((guard.spent, guard.share))
        assert cmdp.m == 1
    np.testing.assert_allclose(found[0][0], found[1][0], atol=1e-9)
    assert found[0][1] == found[1][1]


def test_violation_raises_what_is_spent_and_surplus_lowers_it() -> None:
    """Signals that always fall short, or always have room, of a known limit."""
    for g, sign in ((0.0, 1), (1.0, -1)):
        learner = ss.Uniform(1, 2, 1, 1, episodes=None, thresholds=[0.5])
        guard = ss.Guard(learner, [[1.0, 0.0]], 500.0)
        for _ in range(400):
            guard.observe(short(1, 0.0, g, 0.5))
        lower, upper = guard.spent
        assert lower[0] <= sign * 200.0 <= upper[0]
        assert (upper[0] > 0) == (sign > 0) == (lower[0] > 0)


def test_budgets_are_in_the_users_units(problem: ss.Problem) -> None:
    """`machine` has costs of 0 to 4 in two steps: an episode can cost 8, and 8 is the least budget."""
    ss.Guard(uniform(problem), SAFE, 8)
    with pytest.raises(ss.errors.InvalidOption, match=r"a number of at least 8:"):
        ss.Guard(uniform(problem), SAFE, 7.9)
    known = ss.Guard(uniform(problem, thresholds=[1.0]), SAFE, 7.0)  # 8 less the limit
    assert known.budget == [7.0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"budget": [9.0, 9.0]}, {"budget": "much"}, {"budget": np.nan}, {"budget": -1.0}, {"delta": 0.0},
        {"delta": 1.0}, {"credit": 1}, {"on_unsafe": "panic"}, {"baseline": "slater"},
        {"baseline": [[0.5, 0.4], [1, 0]]}, {"baseline": np.ones((2, 2, 3))}, {"learner": None},
    ],
    ids=str,
)  # fmt: skip
def test_wrong_arguments_are_told(problem: ss.Problem, wrong: dict[str, Any]) -> None:
    arguments = {"learner": uniform(problem), "baseline": SAFE, "budget": 20.0, **wrong}
    with pytest.raises(ss.errors.InvalidOption):
        ss.Guard(**arguments)


def test_a_guard_is_not_guarded(problem: ss.Problem) -> None:
    with pytest.raises(ss.errors.InvalidOption, match="no guard yet"):
        ss.Guard(ss.Guard(uniform(problem), SAFE, 20.0), SAFE, 20.0)


# Who played


def broken(learner: ss.SpotEpochs, policy: Any) -> None:
    """Let the learner propose and explore with this policy, whatever it has seen."""
    given = np.array(np.broadcast_to(np.array(policy, float), learner.state.pi.shape))
    proposed, explored = learner._propose, learner._exploration

    def put(found: Any) -> Any:
        return found._replace(plan=found.plan._replace(policy=given))

    learner._propose = lambda state, *, trial: put(proposed(state, trial=trial))  # type: ignore[method-assign]
    learner._exploration = lambda state: put(explored(state))  # type: ignore[method-assign]


@pytest.mark.parametrize("compiled", [False, True], ids=["by hand", "learn"])
def test_the_baselines_episodes_certify_no_proposal(problem: ss.Problem, compiled: bool) -> None:
    """A very safe baseline plays almost always, and what it shows says nothing about what the learner proposes."""
    learner = ss.SpotEpochs(**problem.interface)
    broken(learner, RECKLESS)
    guard = ss.Guard(learner, SAFE, 8.0)
    if compiled:
        ss.learn(problem, guard, 700)
    else:
        by_hand(problem, guard, 700)
    assert guard.share < 0.2
    assert guard.baseline_verdict == ("safe",)
    assert learner.certificates == ()
    assert learner.episode == 701  # both players' episodes are counted
    assert learner.state.trial.counted[0] <= guard.share * 700


def test_a_learner_that_plays_the_baseline_costs_nothing(problem: ss.Problem) -> None:
    """Its first trial is the baseline's, and counts for both."""
    guard = ss.Guard(ss.SpotEpochs(**problem.interface, baseline=SAFE), SAFE, 8.0)
    by_hand(problem, guard, 60)
    assert guard.share == 1.0
    assert guard.spent[1] <= 0.0
    assert guard.guarded.state.trial.counted[0] == 60


def test_others_may_play(problem: ss.Problem) -> None:
    """A policy that is neither the learner's nor the baseline's is charged, and counts for neither."""
    guard, streams = ss.Guard(uniform(problem), SAFE, 80.0), ss.streams(0)
    for played, spent in (
        (RECKLESS, 8.0),
        (SAFE, 8.0),
        (ss.learners.policy_digest(guard.policy), 16.0),
        (None, 24.0),
    ):
        policy = guard.policy if played is None or isinstance(played, str) else played
        told = (
            played
            if not isinstance(played, list)
            else np.repeat(np.array([played], float), 2, axis=0)
        )
        guard.observe(ss.play(problem, policy, streams, guard.episode), played=told)
        assert guard.spent[1] <= spent
    assert guard.share == 0.5


# A baseline that is not safe


@pytest.mark.parametrize("on_unsafe", ["continue", "stop"])
def test_an_unsafe_baseline_is_noticed(problem: ss.Problem, on_unsafe: str, tmp_path: Path) -> None:
    guard = ss.Guard(uniform(problem), RECKLESS, 8.0, on_unsafe=on_unsafe)
    stops = (
        pytest.raises(ss.errors.UnsafeBaseline) if on_unsafe == "stop" else contextlib.nullcontext()
    )
    with stops, pytest.warns(ss.errors.UnsafeBaseline, match="breaks the limit of constraint 0"):
        by_hand(problem, guard, 300)
    assert guard.baseline_verdict == ("unsafe",)
    played = guard.episode - 1
    assert (played == 300) == (on_unsafe == "continue")
    lower, upper = guard.spent  # the baseline is charged now
    assert lower[0] <= 4.0 * played <= upper[0]
    guard.save(tmp_path / "guard")
    again = ss.learners.load(tmp_path / "guard")
    assert isinstance(again, ss.Guard)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it was said before
        if on_unsafe == "continue":
            by_hand(problem, again, 3)
        else:
            with pytest.raises(ss.errors.UnsafeBaseline):
                again.act(0, 0, np.random.default_rng(0))


def test_a_run_that_stops_carries_what_it_has(problem: ss.Problem) -> None:
    guard = ss.Guard(uniform(problem), RECKLESS, 8.0, on_unsafe="stop")
    with pytest.warns(ss.errors.UnsafeBaseline), pytest.raises(ss.errors.UnsafeBaseline) as stopped:
        ss.learn(problem, guard, record="all")
    assert len(stopped.value.run.episodes) == guard.episode - 1 < 300  # type: ignore[attr-defined]


# Where a learner goes


def test_learn_is_play_and_observe(problem: ss.Problem) -> None:
    one, two = (ss.Guard(uniform(problem), SAFE, 20.0) for _ in range(2))
    run = ss.learn(problem, one, 300, seed=3, record="all")
    by_hand(problem, two, 300, seed=3)
    for (name, mine), theirs in zip(one.arrays().items(), two.arrays().values(), strict=True):
        np.testing.assert_array_equal(mine, theirs, err_msg=name)
    assert 0.0 < one.share < 1.0
    values = {policy.tobytes() for policy, _ in run.replay()}
    assert len(values) == 2  # both policies were played, and are found again
    env = ss.Guard(uniform(problem), SAFE, 20.0)
    ss.learn(ProblemEnv("machine"), env, 300, seed=3)
    np.testing.assert_array_equal(env.spent, one.spent)


def test_a_run_resumes(problem: ss.Problem) -> None:
    from safespot.training.learn import Training

    def fresh() -> Training:
        return Training(problem, ss.Guard(uniform(problem), SAFE, 20.0), 200, seed=1)

    whole, first, second = fresh(), fresh(), fresh()
    while whole.remaining:
        whole.advance()
    while first.remaining > 100:
        first.advance(50)
    second.restore({name: array.copy() for name, array in first.arrays().items()})
    while second.remaining:
        second.advance()
    for name, array in whole.learner.arrays().items():
        np.testing.assert_array_equal(array, second.learner.arrays()[name], err_msg=name)


def test_the_decision_is_handed_back(problem: ss.Problem, tmp_path: Path) -> None:
    """`act` gives None, the practice's episode counts as the baseline's, also after a crash."""
    with pytest.raises(ss.errors.InvalidOption, match="hand-back"):
        ss.learn(problem, ss.Guard(uniform(problem), "hand-back", 8.0))
    rng, asked = np.random.default_rng(0), 0
    with ss.open(tmp_path / "ward", ss.Guard(uniform(problem), "hand-back", 8.0)) as ward:
        for t in range(1, 41):
            back = ward.act(0, 0, rng) is None
            asked += back
            policy = SAFE if back else ward.policy
            ward.observe(ss.play(problem, policy, ss.streams(t), t))
        assert isinstance(ward.learner, ss.Guard)
        share, spent = ward.learner.share, ward.learner.spent
    assert asked == round((1 - share) * 40) > 30
    assert np.isnan(ward.learner.policy).all()
    with ss.open(tmp_path / "ward") as ward:
        assert isinstance(ward.learner, ss.Guard)
        assert ward.learner.share == share
        np.testing.assert_array_equal(ward.learner.spent, spent)
        assert [policy is None for policy, _ in ward.replay()].count(True) == asked
        ward.observe(ss.play(problem, SAFE, ss.streams(0), 1), played="hand-back")


def test_a_durable_guard_is_told_from_another(problem: ss.Problem, tmp_path: Path) -> None:
    with ss.open(tmp_path / "line", ss.Guard(uniform(problem), SAFE, 20.0)):
        pass
    with pytest.raises(ss.errors.InvalidOption, match="budget"):
        ss.open(tmp_path / "line", ss.Guard(uniform(problem), SAFE, 30.0))


def test_what_a_learner_proves_its_guard_passes_on(problem: ss.Problem) -> None:
    guard = ss.Guard(ss.SpotEpochs(**problem.interface, baseline=SAFE), SAFE, 40.0)
    ss.learn(problem, guard, 200)
    learner: Any = guard.guarded
    assert guard.certified is not None
    assert guard.proofs.certificates == learner.certificates
    assert guard.proofs.history == learner.history
    np.testing.assert_array_equal(guard.proposal, learner.proposal)
    spending: Any = guard.proofs.spending
    assert (spending.share, learner.proofs.spending) == (guard.share, None)
    np.testing.assert_array_equal(spending.spent, guard.spent)


def test_a_guarded_learner_is_certified_as_itself(problem: ss.Problem) -> None:
    guard = ss.Guard(uniform(problem), SAFE, 20.0)
    by_hand(problem, guard, 20)
    assert ss.certify(guard).policy_digest == ss.certify(guard.guarded).policy_digest


# The budget is kept


def test_few_runs_exceed_the_budget() -> None:
    """A hostile learner, a baseline with no room to spare, delta = 0.2: the quick part of the study."""
    world = study.worlds()["machine"]()
    failed, worst, share = study.failures(world, "hostile", range(40))
    assert clopper_pearson(failed, 40)[0] <= study.DELTA
    assert worst > 0.3
    assert 0.0 < share < 0.9


def test_a_guard_that_forgets_what_an_episode_can_cost_is_caught() -> None:
    world = study.worlds()["cliff"]()
    assert study.failures(world, "hostile", range(5))[0] == 0
    assert study.failures(world, "hostile", range(5), forgets=True)[0] == 5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bandit", "machine", "random", "Clinic"])
@pytest.mark.parametrize("learner", study.LEARNERS)
def test_of_1000_runs_few_exceed_the_budget(name: str, learner: str) -> None:
    failed, _, _ = study.failures(study.worlds()[name](), learner, range(study.SEEDS))
    assert clopper_pearson(failed, study.SEEDS)[1] <= study.DELTA
