"""The learners side by side: what a plan costs, and what an episode costs.

A plan over plausible models by column generation is compared with the extended linear program, of which only the
time in HiGHS counts, not that of building it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import safespot as ss
from safespot.learners.baselines.optimism import optimistic_models
from safespot.learners.baselines.plausible_models import best_response, optimistic_plan
from safespot.training.learn import Training

from ..record import Benchmark, Row, timed
from .extended import extended_program


def prepared(S: int, A: int, H: int, episodes: int) -> tuple[ss.learners.OptCMDP, Any]:
    """An `OptCMDP` that has seen uniform play, and a limit that binds: half way to the most that is plausible."""
    problem = ss.problems.make("random", states=S, actions=A, horizon=H, seed=1)
    uniform = ss.Uniform(**problem.interface, episodes=episodes)
    ss.learn(problem, uniform, track="grid")
    learner = ss.learners.OptCMDP(**problem.interface, episodes=episodes, bonus_scale=0.1)
    learner.statistics = uniform.statistics
    models = optimistic_models(learner)
    free, most = (best_response(models, weights)[0][1] for weights in np.eye(2))
    return learner, np.array([(free + most) / 2.0])


def planning() -> Sequence[Row]:
    """One plan at two sizes."""
    rows = []
    for S, A, H, compare in ((10, 2, 10, True), (30, 3, 10, False)):
        learner, limits = prepared(S, A, H, 20_000)

        def plan(learner: ss.learners.OptCMDP = learner, limits: Any = limits) -> Any:
            return optimistic_plan(optimistic_models(learner), limits)

        seconds, found = timed(plan, repeat=9)
        if compare:
            program = extended_program(optimistic_models(learner), limits)
            assert program.value is not None
            apart = abs(program.value - found.values[0])
            assert apart < 1e-7, apart
            ratio = program.seconds / seconds
            rows.append(
                Row(
                    "planning", f"OptCMDP, one plan, S={S}, A={A}, H={H}; the extended program beside it",
                    seconds * 1e3, "ms", versus=program.seconds * 1e3, target="20 times faster, same value to 1e-7",
                    reached=ratio >= 20.0, note=f"values differ by {apart:.1e}",
                )
            )  # fmt: skip
        else:
            rows.append(
                Row(
                    "planning", f"OptCMDP, one plan, S={S}, A={A}, H={H}", seconds * 1e3, "ms",
                    target="under 1 s", reached=seconds < 1.0,
                )
            )  # fmt: skip
    return rows


def episodes() -> Sequence[Row]:
    """An episode of each learner, plans included."""
    problem = ss.problems.make("random", states=5, actions=3, horizon=5, seed=1)
    safest = ss.slater(problem.cmdp)
    dual: dict[str, Any] = {"rho": safest.rho}
    needs: dict[str, dict[str, Any]] = {
        "spot": dual, "opt-primal-dual": dual, "opt-dual": dual, "regularized-primal-dual": dual,
        "opt-pess-primal-dual": {"slack": safest.margins},
        "dope": {"baseline": safest.policy, "slack": safest.margins},
        "opt-pess-lp": {"baseline": safest.policy, "slack": safest.margins},
        "fixed": {"policy": safest.policy},
    }  # fmt: skip
    rows = []
    for name in ss.learners.names():
        options = {"thresholds": problem.cmdp.thresholds, **needs.get(name, {})}
        if "bonus_scale" in ss.learners.options(name):  # learners in phases have none
            options["bonus_scale"] = 0.01
        for T in (100, 10_000):  # the first run compiles
            learner = ss.learners.make(name, problem.interface, episodes=T, **options)
            training = Training(problem, learner)  # finds the optimum, which is no learner's work
            began = time.process_time()
            while training.remaining:
                training.advance()
            seconds = time.process_time() - began
        rows.append(Row("episodes", f"{name}, S=5, A=3, H=5", seconds / T * 1e6, "µs an episode"))
    return rows


BENCHMARKS = (Benchmark("planning", planning), Benchmark("episodes", episodes))
