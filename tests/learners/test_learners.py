"""The baselines: against their reference implementations, in `learn` and in sweeps, and what each is known for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from studies.speed.extended import extended_program

import safespot as ss
from safespot.experiments.settings import make_learner
from safespot.experiments.spec import as_spec
from safespot.experiments.worker import perform
from safespot.learners.pooling import counts
from safespot.training import learn as training
from safespot.training import loop
from tests.support import learner_references as references
from tests.support.contract import readings, saved
from tests.support.episodes import full_mask, random_episode

S, A, H, M, T, C = 3, 2, 3, 2, 400, 0.02
LIMITS = [1.1, 1.3]
BASELINE = np.tile([0.25, 0.75], (H, S, 1))
REFERENCES: dict[str, tuple[Any, dict[str, Any]]] = {
    "opt-cmdp": (references.OptCMDP, {}),
    "opt-cmdp-bonus": (references.OptCMDPBonus, {}),
    "dope": (references.DOPE, {"baseline": BASELINE, "slack": 0.5}),
    "opt-pess-lp": (references.OptPessLP, {"baseline": BASELINE, "slack": 0.5}),
    "opt-dual": (references.OptDual, {"rho": 2.0, "dual_step": 0.1}),
    "opt-pess-primal-dual": (references.OptPessPrimalDual, {"slack": 0.5, "tightening": 0.001}),
    "regularized-primal-dual": (
        references.RegularizedPrimalDual,
        {"rho": 2.0, "policy_step": 0.2, "dual_step": 0.1, "regularization": 0.3},
    ),
}
PROGRAMS = ["opt-cmdp", "opt-cmdp-bonus", "dope", "opt-pess-lp"]
STEPS = ["opt-dual", "opt-pess-primal-dual", "regularized-primal-dual"]


def both(name: str, start: int | None, limits: Any = LIMITS, **more: Any) -> tuple[Any, Any]:
    """A learner and its reference."""
    made, options = REFERENCES[name]
    interface = {"states": S, "actions": A, "horizon": H, "constraints": M, "start": start}
    options = {"bonus_scale": C, "thresholds": limits, **options, **more}
    ours = ss.learners.make(name, interface, episodes=T, **options)
    scale = options["bonus_scale"]
    return ours, made(S, A, H, M, start=start, limits=limits, T=T, delta=0.05, c=scale)


def episodes(start: int | None, seed: int) -> Any:
    """Random episodes whose pairs differ in their means, so that there is something to plan."""
    rng = np.random.default_rng(seed)
    means = rng.random((H, S, A))
    while True:
        yield random_episode(rng, full_mask(None, H, S, A), M, start=start, means=means)


@pytest.mark.parametrize("start", [0, None])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_that_of_the_twin(name: str, start: int | None) -> None:
    """Same payoffs and intervals, so the same value; the policy reaches it, or is the baseline without one."""
    scale = C if name.startswith("opt-cmdp") else 1e-4
    ours, theirs = both(name, start, replan="always", bonus_scale=scale)
    found = 0
    for t, episode in zip(range(60), episodes(start, 1), strict=False):
        ours.observe(episode)
        theirs.observe(episode)
        if t % 12 == 11:
            models, limits = theirs.program()
            program = extended_program(models, limits)
            if program.value is None:
                if "baseline" in REFERENCES[name][1]:
                    np.testing.assert_array_equal(ours.policy, BASELINE)
                continue
            found += 1
            own = extended_program(models, limits - 1e-9, ours.policy)
            assert own.value == pytest.approx(program.value, abs=1e-6 * max(1.0, program.value))
    assert found >= 2


@pytest.mark.parametrize("start", [0, None])
@pytest.mark.parametrize("name", STEPS)
def test_steps_are_those_of_the_twin(name: str, start: int | None) -> None:
    ours, theirs = both(name, start, limits=[2.2, 2.4], bonus_scale=0.003)
    largest = 0.0
    for t, episode in zip(range(40), episodes(start, 2), strict=False):
        np.testing.assert_allclose(ours.policy, theirs.policy, rtol=0, atol=1e-9, err_msg=str(t))
        np.testing.assert_allclose(ours.multipliers, theirs.lam, rtol=0, atol=1e-9)
        largest = max(largest, float(theirs.lam.max()))
        ours.observe(episode)
        theirs.observe(episode)
    assert largest > 0.01  # the multipliers have moved


def test_opt_primal_dual_is_spot_that_knows_its_thresholds() -> None:
    made = [
        kind(S, A, H, M, episodes=T, rho=2.0, bonus_scale=C, thresholds=LIMITS)
        for kind in (ss.Spot, ss.learners.OptPrimalDual)
    ]
    for _, episode in zip(range(30), episodes(0, 3), strict=False):
        for learner in made:
            learner.observe(episode)
    assert readings(made[0]) == readings(made[1])


@pytest.mark.parametrize("name", PROGRAMS)
def test_doubling_plans_when_the_visits_of_a_pair_have_doubled(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, _ = both(name, 0)
    plans: list[int] = []
    original = type(ours).plan

    def noted(self: Any) -> Any:
        plans.append(self.episode)
        return original(self)

    monkeypatch.setattr(type(ours), "plan", noted)
    before = np.zeros((H, S * A), int)
    expected, counts = [], np.zeros((H, S * A), int)
    for t, episode in zip(range(2, 80), episodes(0, 4), strict=False):
        ours.observe(episode)
        pairs = episode.states[:-1] * A + episode.actions
        counts[np.arange(H), pairs] += 1
        if (counts >= np.maximum(2 * before, 1))[np.arange(H), pairs].any():
            expected.append(t)
            before = counts.copy()
    assert plans == expected
    assert len(plans) < 60


# --- learn, sweeps

NEEDS: dict[str, dict[str, Any]] = {
    "spot": {"rho": 2.0},
    "opt-primal-dual": {"rho": 2.0},
    "opt-dual": {"rho": 2.0},
    "regularized-primal-dual": {"rho": 2.0},
    "opt-pess-primal-dual": {"slack": 0.2},
    "dope": {"baseline": "slater", "slack": "slater"},
    "opt-pess-lp": {"baseline": "slater", "slack": "slater"},
    "fixed": {"policy": "optimal"},
}


def tiny() -> Any:
    return ss.problems.make("random", states=3, actions=2, horizon=3, seed=1)


def run_spec(name: str, episodes: int, **options: Any) -> Any:
    scaled = {"bonus_scale": 0.01} if "bonus_scale" in ss.learners.options(name) else {}
    (run,) = as_spec(
        {
            "episodes": episodes,
            "seeds": [5],
            "problem": {"name": "random", "options": {"states": 3, "actions": 2, "horizon": 3, "seed": 1}},
            "learners": [
                {"name": name, "options": {**scaled, **NEEDS.get(name, {}), **options}}
            ],
        }
    ).runs()  # fmt: skip
    return run


@pytest.mark.parametrize("name", ss.learners.names())
def test_learn_is_the_loop_of_play_and_observe(name: str, tmp_path: Path) -> None:
    problem, run = tiny(), run_spec(name, 60, stance=0.5, window=0.5)
    ours, theirs = make_learner(run), make_learner(run)
    noise = ss.streams(5)
    values, thresholds = [], []
    for t in range(1, 61):
        values.append(ss.evaluate(problem.cmdp, theirs.policy).value)
        thresholds.append(theirs.thresholds)
        theirs.observe(ss.play(problem, theirs.policy, noise, t))
    result = ss.learn(problem, ours, seed=5, record="all")
    assert saved(ours, tmp_path) == saved(theirs, tmp_path)
    assert readings(ours) == readings(theirs)
    np.testing.assert_allclose(result.values, values, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(result.thresholds, thresholds)
    gaps = ss.solve(problem.cmdp).value - np.array(values)
    np.testing.assert_allclose(result.regret, np.cumsum(gaps), atol=1e-7)


@pytest.mark.parametrize("name", ["opt-cmdp", "opt-dual", "regularized-primal-dual", "dope"])
def test_a_run_goes_on_from_its_arrays(name: str, tmp_path: Path) -> None:
    run = run_spec(name, 80)
    whole = training.Training(tiny(), make_learner(run), seed=5)
    parts = training.Training(tiny(), make_learner(run), seed=5)
    while whole.remaining:
        whole.advance(7)
    while parts.remaining:
        parts.advance(11)
        held = {name: array.copy() for name, array in parts.arrays().items()}
        parts = training.Training(tiny(), make_learner(run), seed=5)
        parts.restore(held)
    assert saved(whole.learner, tmp_path) == saved(parts.learner, tmp_path)
    np.testing.assert_array_equal(whole.result().regret, parts.result().regret)


@pytest.mark.parametrize("name", ss.learners.names())
def test_every_learner_runs_in_a_sweep_with_known_thresholds(name: str) -> None:
    outcome = perform(run_spec(name, 40, thresholds="known"), None, lambda run, done: True)
    assert outcome.columns["episode"][-1] == 40
    assert np.isfinite(outcome.columns["regret"]).all()
    limits = np.array(outcome.facts["limits"])
    np.testing.assert_allclose(outcome.columns["threshold_0"], limits[0])


@pytest.mark.skipif(not hasattr(loop.play_chunk, "signatures"), reason="kernels are not compiled")
def test_one_compiled_loop_serves_every_learner_that_plans() -> None:
    for name in ss.learners.names():
        ss.learn(tiny(), make_learner(run_spec(name, 20)))
    signatures = [str(each) for each in loop.play_chunk.signatures]  # type: ignore[attr-defined]
    others = (
        "Totals",
        "GuardRates",
    )  # limits as totals, and guards around learners, are loops of their own
    plain = [each for each in signatures if not any(name in each for name in others)]
    assert sum("PlannerRates" in each for each in plain) == 1


# --- What they are known for


def test_a_fixed_optimum_has_no_regret() -> None:
    problem = tiny()
    best = ss.solve(problem.cmdp)
    policy = np.array(best.policy)
    learner = ss.Fixed(**problem.interface, episodes=50, policy=policy)
    policy[:] = 0.0  # the caller's array is not the learner's
    run = ss.learn(problem, learner)
    np.testing.assert_allclose(run.strong_regret, 0.0, atol=1e-7)
    np.testing.assert_allclose(run.strong_violation, 0.0, atol=1e-7)
    assert (run.multipliers == 0.0).all()


def safe_bandit() -> Any:
    """One state, two actions: the safe one pays little."""
    cmdp = ss.CMDP(
        np.ones((1, 2, 1)), [[0.2, 0.9]], [[[0.9, 0.3]]], thresholds=[0.6], horizon=1
    )  # fmt: skip
    return ss.Problem(cmdp)


@pytest.mark.parametrize("name", ["dope", "opt-pess-lp"])
def test_a_safe_baseline_is_left_without_a_violation(name: str) -> None:
    problem, baseline = safe_bandit(), [[1.0, 0.0]]
    learner = ss.learners.make(
        name, problem.interface, episodes=20_000,
        baseline=baseline, slack=0.3, thresholds=[0.6],
    )  # fmt: skip
    run = ss.learn(problem, learner)
    assert run.strong_violation[-1] == 0.0
    at_first = run.values[run.episodes <= 150]
    np.testing.assert_allclose(at_first, 0.2)  # 0.9 - sqrt(L_r / n) is below 0.6 so long
    assert run.values[-1] > 0.4  # of 0.55 at the optimum


def test_opt_cmdp_finds_the_optimum() -> None:
    problem = tiny()
    known = {"thresholds": problem.cmdp.thresholds, "bonus_scale": 0.01}
    run = ss.learn(
        problem, ss.learners.OptCMDP(**problem.interface, episodes=20_000, **known), seed=2
    )
    policy = ss.evaluate(problem.cmdp, run.policy)
    assert abs(policy.value - run.optimum) < 0.02
    assert (policy.constraints >= problem.cmdp.limits - 0.02).all()
    uniform = ss.learn(problem, ss.Uniform(**problem.interface, episodes=20_000), seed=2)
    assert run.strong_regret[-1] < 0.1 * uniform.strong_regret[-1]


def test_an_interrupted_plan_is_made_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    problem = tiny()
    steady, stopped = (
        ss.learners.OptDual(**problem.interface, episodes=100, rho=2.0, bonus_scale=0.01)
        for _ in range(2)
    )
    ss.learn(problem, steady, seed=1)
    original, calls = ss.learners.OptDual.plan, [0]

    def interrupted(self: Any) -> Any:
        plan = original(self)
        calls[0] += 1
        if calls[0] == 30:
            raise KeyboardInterrupt
        return plan

    monkeypatch.setattr(ss.learners.OptDual, "plan", interrupted)
    with pytest.raises(KeyboardInterrupt) as raised:
        ss.learn(problem, stopped, seed=1, record="all")
    assert stopped.episode == 31
    assert len(raised.value.run.episodes) == 30  # type: ignore[attr-defined]
    ss.learn(problem, stopped, seed=1)
    assert saved(stopped, tmp_path) == saved(steady, tmp_path)


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("fixed", {"policy": np.ones((H, S, A))}, "policy"),
    ("fixed", {"policy": np.ones((2, 2)) / 2}, "policy"),
    ("fixed", {}, "policy"),
    ("dope", {"slack": 1.0}, "baseline"),
    ("dope", {"baseline": BASELINE, "slack": 0.0}, "slack"),
    ("dope", {"baseline": BASELINE, "slack": [1.0, 1.0, 1.0]}, "slack"),
    ("dope", {"baseline": [[0.5, 0.6]] * S, "slack": 1.0}, "baseline"),
    ("opt-pess-lp", {"baseline": BASELINE}, "slack"),
    ("opt-cmdp", {"replan": "never"}, "replan"),
    ("opt-cmdp", {"rho": 2.0}, "rho"),
    ("opt-dual", {}, "rho or slack"),
    ("opt-dual", {"rho": np.inf}, "dual_step"),
    ("opt-pess-primal-dual", {"slack": -1.0}, "slack"),
    ("opt-pess-primal-dual", {"slack": 1.0, "tightening": -1.0}, "tightening"),
    ("regularized-primal-dual", {"rho": 1.0, "regularization": 10.0, "policy_step": 1.0}, "below 1"),
    ("regularized-primal-dual", {"rho": 1.0, "regularization": "much"}, "regularization"),
    ("uniform", {"stance": "bold"}, "stance"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options", "word"), BAD)
def test_bad_options_are_refused(name: str, options: dict[str, Any], word: str) -> None:
    interface = {"states": S, "actions": A, "horizon": H, "constraints": M}
    with pytest.raises(ss.errors.InvalidOption, match=word):
        ss.learners.make(name, interface, episodes=10, **options)


# --- Steps that are alike


@pytest.mark.parametrize("name", ["opt-cmdp", "opt-cmdp-bonus", "opt-dual"])
def test_planners_share_the_counts_of_steps_that_are_alike(name: str) -> None:
    problem = ss.problems.make("random", states=4, actions=2, horizon=3, seed=1)
    options: dict[str, Any] = {"bonus_scale": 0.1, "thresholds": [0.5]}
    if name == "opt-dual":
        options["rho"] = 2.0
    alike, apart = (
        ss.learners.make(
            name, {**problem.interface, "stationary": stationary}, episodes=50, **options
        )
        for stationary in (True, False)
    )
    uniform, streams = np.full((3, 4, 2), 0.5), ss.streams(0)
    for t in range(1, 21):
        episode = ss.play(problem, uniform, streams, t)
        alike.observe(episode, played=uniform)
        apart.observe(episode, played=uniform)
    ours, theirs = alike.counts(), apart.counts()  # type: ignore[attr-defined]
    n, sums, table = apart.statistics.n, apart.statistics.sums, counts(apart.statistics)
    assert (theirs.n == n).all()
    assert (ours.n == n.sum(axis=0)).all()
    np.testing.assert_allclose(ours.sums, sums.sum(axis=1, keepdims=True))
    made = [[each.toarray() for each in some.matrices(some.counts)] for some in (ours, theirs)]
    assert (np.array(made[0]) == table.sum(axis=0)).all()
    assert (np.array(made[1]) == table).all()
    assert (alike.policy != apart.policy).any()
