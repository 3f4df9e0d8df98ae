"""Learn a few problems and print a digest of each run and its learner; run as a program."""

from __future__ import annotations

import hashlib

import safespot as ss
from safespot.spot import visits
from tests.support.digest import state
from tests.support.trails import example, spot


def digest(problem: ss.Problem, episodes: int) -> str:
    run = ss.learn(problem, spot(problem, None, window=0.5), episodes, seed=3)
    numbers = hashlib.blake2b(digest_size=16)
    arrays = (run.values, run.regret, run.strong_violations, *run.threshold_bounds)
    for array in (*arrays, *state(run.learner)):
        numbers.update(array.tobytes())
    return numbers.hexdigest()


if __name__ == "__main__":
    for dense in (2**22, 0):
        visits.DENSE = dense
        print(digest(example(ss.signals.Signals(rewards=ss.signals.Beta()), units=True), 2000))
        print(digest(ss.problems.make("random", states=30, horizon=8, successors=3), 2000))
