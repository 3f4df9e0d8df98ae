"""A fuzzer of all that comes from outside while learning.

    python -m tests.reliability.strange_worlds --steps 100000 [--seed 0]

Environments that show nonsense, episodes with nonsense in them, and actions asked for at places that do not exist. Each
must be refused by one of our errors, and leave the learner as it was, bit for bit; whatever is accepted must be valid.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

import safespot as ss
from safespot import files
from tests.support.contract import A, H, M, S, Subject

Random = random.Random
NONSENSE: list[Any] = [
    None, True, False, "", "1", "nan", b"1", -1, 2**31, 2**63, -(2**63), 10**30, 0.5, -0.5, 1.0000001, 1e308, -1e308,
    float("nan"), float("inf"), float("-inf"), 1j, [], [None], [0.5], [0.5, 0.5], [0.5, 0.5, 0.5], {}, {"a": 1}, (),
    [[0.5], [0.5, 0.5]], object(), range(3), Ellipsis, NotImplemented, int, lambda: 0,
    np.float32("inf"), np.float16(0.5), np.int8(-1), np.bool_(True), np.datetime64("2020-01-01"), np.array(0.5),
    np.array([0.5]), np.array([0.5, np.nan]), np.array([np.nan, np.nan]), np.zeros((2, 2)), np.array(["a"]),
    np.array([object()]), np.array([1, 2], np.uint8), np.array([2**64 - 1], np.uint64), np.array(["2020"], "M8[s]"),
]  # fmt: skip


def nonsense_array(array: Any, rng: Random) -> Any:
    """An array of an episode with something wrong about it, most of the time."""
    match rng.randrange(14):
        case 0:
            return rng.choice(NONSENSE)
        case 1:
            return array[:-1]
        case 2:
            return np.concatenate([array, array[-1:]])
        case 3:
            return array[..., None]
        case 4:
            types: Any = (np.float32, object, complex, str, np.int8, np.bool_, np.uint64)
            with np.errstate(all="ignore"):
                return array.astype(rng.choice(types))
        case 5:
            return array.tolist()
        case 6:
            return [*array.tolist()[:-1], rng.choice(NONSENSE)]
        case 7:
            return array.T if array.ndim > 1 else array[::-1]
        case 8:
            return np.broadcast_to(array, (2, *array.shape))
    changed = np.array(array, float if rng.random() < 0.5 else array.dtype)
    place = tuple(rng.randrange(n) for n in changed.shape)
    wild = [float("nan"), float("inf"), -float("inf"), -1e-6, 1.000001, 5.0, -3.0, 1e308, 1e-320]
    if changed.dtype.kind == "i":
        wild = [-1, -(2**63), 2**63 - 1, 2**31, S, S + 1, A, 0, 1]
    changed[place] = rng.choice(wild)
    return changed


def digest(learner: Any) -> str:
    derived = {"policy": learner.policy, "thresholds": learner.thresholds}
    return files.checksum({**learner.arrays(), **derived}, {})


class Tally:
    """How what came from outside fared."""

    def __init__(self, learner: Any) -> None:
        self.learner, self.before = learner, digest(learner)
        self.fared, self.wrong = Counter[str](), list[str]()

    def judge(self, what: str, work: Any, steps: int = 1) -> Any:
        """Do it: only our errors are allowed, and they change nothing."""
        answer = None
        try:
            answer = work()
            self.fared[f"{what}: accepted"] += steps
            self.before = digest(self.learner)
        except ss.SafespotError as problem:
            self.fared[f"{what}: refused"] += steps
            if len(str(problem)) < 10:
                self.wrong.append(f"{what}: {problem!r} says nothing")
            if digest(self.learner) != self.before:
                self.wrong.append(f"{what}: {problem} changed the learner")
                self.before = digest(self.learner)
        except Exception as problem:
            last = traceback.extract_tb(problem.__traceback__)[-1]
            where = f"{Path(last.filename).name}:{last.lineno}"
            self.wrong.append(f"{what}: {type(problem).__name__}: {problem} ({where})"[:300])
            self.before = digest(self.learner)
        if not np.allclose(self.learner.policy.sum(axis=2), 1.0, rtol=0, atol=1e-9):
            self.wrong.append(f"{what}: the policy is none any more")
        return answer


def episodes(tally: Tally, subject: Subject, steps: int, rng: Random) -> None:
    """Episodes with wrong arrays, and things that are not episodes, to `observe`."""
    generator = np.random.default_rng(rng.randrange(2**32))
    names = ("states", "actions", "rewards", "constraints", "thresholds")
    for _ in range(steps // H):
        valid = subject.episode(generator)
        arrays = {name: getattr(valid, name) for name in names}
        for name in rng.sample(names, rng.choice((1, 1, 1, 2))):
            arrays[name] = nonsense_array(arrays[name], rng)
        if rng.random() < 0.05:
            thing = rng.choice(NONSENSE)
            tally.judge("observe", lambda: tally.learner.observe(thing), H)  # noqa: B023
        else:
            tally.judge("observe", lambda: tally.learner.observe(ss.Episode(**arrays)), H)  # noqa: B023


def acts(tally: Tally, steps: int, rng: Random) -> None:
    """Actions at steps and states that there are not."""
    generator = np.random.default_rng(0)
    places = [*NONSENSE, *range(-1, H + 2), np.int64(1), np.uint8(2)]
    for _ in range(steps):
        h, s = rng.choice(places), rng.choice(places)
        action = tally.judge("act", lambda: tally.learner.act(h, s, generator))  # noqa: B023
        if action is not None and tally.learner.policy[h, s, action] <= 0.0:
            tally.wrong.append(f"act: took {action} at {h}, {s}")


class World(gymnasium.Env[Any, Any]):
    """An environment that, now and then, shows nonsense in one place."""

    observation_space = spaces.Discrete(S)
    action_space = spaces.Discrete(A)

    def __init__(self, rng: Random) -> None:
        self.rng, self.sane = rng, True

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.wrong = "" if self.sane else self.rng.choice(
            ("observation", "first", "reward", "cost", "threshold", "ended", "cut", "answer", "info", "missing")
        )  # fmt: skip
        self.when, self.time = self.rng.randrange(H), 0
        return self._maybe("first", 0), {}

    def _maybe(self, what: str, value: Any) -> Any:
        now = self.wrong == what and (self.time == self.when or what == "first")
        return self.rng.choice(NONSENSE) if now else value

    def step(self, action: Any) -> Any:
        rng = self.rng
        info: Any = {
            "cost": self._maybe("cost", np.array([rng.random() for _ in range(M)])),
            "threshold": self._maybe("threshold", np.array([rng.random() for _ in range(M)])),
        }
        if self.wrong == "missing" and self.time == self.when:
            del info[rng.choice(sorted(info))]
        answer = (
            self._maybe("observation", rng.randrange(S)),
            self._maybe("reward", rng.random()),
            self._maybe("ended", False),
            self._maybe("cut", False),
            self._maybe("info", info),
        )
        self.time += 1
        return self._maybe("answer", answer)


def worlds(steps: int, rng: Random) -> Tally:
    """`learn` in environments that show nonsense."""
    world = World(rng)
    box = ss.gym.BlackBox(world, horizon=H)
    learner = ss.Spot(
        **box.interface, episodes=None, rho=2.0, bonus_scale=0.02, threshold_scale=0.1
    )
    tally = Tally(learner)
    world.sane = False
    for _ in range(steps // H):
        tally.judge("learn", lambda: ss.learn(box, learner, 1), H)
    return tally


def policies(steps: int, rng: Random) -> Tally:
    """Policies whose rows are no distributions, to whatever takes one."""
    subject = Subject("spot", "default")
    tally = Tally(subject.make())
    cmdp = ss.problems.make("random", states=S, actions=A, horizon=H).cmdp
    for _ in range(steps // H):
        policy = np.full((H, S, A), 1.0 / A)
        changed = nonsense_array(policy, rng)
        tally.judge("evaluate", lambda: ss.evaluate(cmdp, changed), H)  # noqa: B023
    return tally


def fuzz(steps: int, seed: int) -> dict[str, Any]:
    """A share of the steps for each way in."""
    began = time.perf_counter()
    rng = Random(seed)
    tallies = []
    for name, variant in (
        ("spot", "masked"),
        ("spot", "units"),
        ("opt-cmdp", "pool"),
        ("spot", "bernstein"),
    ):
        subject = Subject(name, variant)
        tally = Tally(subject.run(subject.make(), 1, 30))
        episodes(tally, subject, steps // 10, rng)
        acts(tally, steps // 20, rng)
        tallies.append(tally)
    tallies += [worlds(steps // 5, rng), policies(steps // 5, rng)]
    fared = sum((tally.fared for tally in tallies), Counter[str]())
    wrong = [text for tally in tallies for text in tally.wrong]
    return {
        "steps": sum(fared.values()), "fared": dict(sorted(fared.items())), "wrong": len(wrong),
        "samples": wrong[:20], "seconds": time.perf_counter() - began,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    warnings.simplefilter("error")
    # So many valid episodes are more than the learners' T, which each of them says once.
    warnings.filterwarnings("ignore", "an episode goes beyond the learner's T")
    found = fuzz(given.steps, given.seed)
    print(json.dumps(found, indent=1))
    sys.exit(1 if found["wrong"] else 0)


if __name__ == "__main__":
    main()
