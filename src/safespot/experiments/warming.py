"""Compile ahead what learning and judging need: for images and CI, and for whoever does not want to wait later."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

from .. import learners
from ..judging.certify import certify
from ..model.problem import Problem
from ..model.simulation import play, streams
from ..training.learn import learn
from .settings import Setting, from_truth, make_problem, needs

EPISODES = 4
JUDGES = "judges"
# The loop of each is another one, and the first take longest; all other learners share one of these.
LOOPS: dict[str, tuple[str, dict[str, Any]]] = {
    "spot": ("spot", {}),
    "spot-epochs": ("spot-epochs", {}),
    "spot with totals": ("spot", {"estimator": "total"}),
    "regularized-primal-dual": ("regularized-primal-dual", {}),
}


def chores() -> list[str]:
    """What there is to compile, in the order in which it is begun."""
    return [*LOOPS, JUDGES, *(name for name in learners.names() if name not in LOOPS)]


def warm(workers: int = 2) -> Iterator[str]:
    """Do all of it in so many processes, and yield what is ready."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, spawn) as pool:
        begun = {pool.submit(compile_for, chore): chore for chore in chores()}
        for done in as_completed(begun):
            done.result()
            yield begun[done]


def compile_for(chore: str) -> None:
    """Do something small of this kind, so that what it calls is compiled and kept on the disk."""
    setting = Setting(make_problem("random", {"states": 3, "actions": 2, "horizon": 3, "seed": 1}))
    problem = setting.problem
    name, given = LOOPS.get("spot" if chore == JUDGES else chore, (chore, {}))
    options = {key: from_truth(setting, key, value) for key, value in needs(name, given).items()}
    learner = learners.make(name, problem.interface, episodes=EPISODES, **options)
    run = learn(problem, learner, episodes=EPISODES - 1)
    learner.observe(play(problem, learner.policy, streams(0), EPISODES))
    if chore == JUDGES:
        _judge(problem, learner, run)


def _judge(problem: Problem, learner: learners.Learner, run: Any) -> None:
    certify(learner)
    certify(problem, learner.policy, episodes=EPISODES)
    certify(run)
