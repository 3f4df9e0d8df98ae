"""`learn_env`: a learner in a Gymnasium environment, of which nothing is known but what it shows.

    while episodes remain:
        play the learner's policy   -> an episode
        observe it

No truth, so no exact values: the run holds what was realised. In a `ProblemEnv` the episodes are those of
`learn` with the same seed, and so the learner becomes the same, bit for bit.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from .arrays import Episode, Float, as_count, frozen
from .blackbox import BlackBox, as_box
from .durable import DurableLearner
from .errors import InvalidOption
from .learners.interface import interface
from .learners.learner import Learner
from .metrics import Run, grid
from .simulation import streams
from .training import check_episodes


def learn_env(
    env: Any,
    learner: Learner | DurableLearner,
    episodes: int | None = None,
    seed: int = 0,
    record: str | int = "log",
    **declarations: Any,
) -> Run:
    """Let `learner` play an environment and learn from it.

    Args:
        env: a `BlackBox`, or an environment with the declarations of one. Horizon, senses and ranges are the
            learner's where they are not declared.
        learner: made with ``**env_interface(env, …)``, or a durable one; goes on from where it is, and is changed.
        episodes: how many; by default what remains of the learner's T.
        seed: of the first reset and of the actions. A learner that goes on draws new luck.
        record: "log" (32 episodes a decade), "all", or every k-th episode.
        **declarations: of a `BlackBox`, where `env` is none.

    The run's `values` and `constraint_values` are the sums of the recorded episodes themselves, not
    expectations. `regret` is None, since the optimum is unknown, and `optimum` NaN. `violations` add up what
    each episode's own threshold signals ask for (the known thresholds, where the learner knows them) and its
    constraint signals lack; a step without a sample counts as the episode's other steps do.

    """
    if not isinstance(learner, (Learner, DurableLearner)):
        raise InvalidOption(f"learn_env takes a learner, got {type(learner).__name__}.")
    box = _fitting(env, learner, declarations)
    total = check_episodes(learner, episodes)
    f, first = learner.interface, learner.episode
    seed = as_count("seed", seed, least=0, error=InvalidOption)
    luck = seed if first == 1 else _another(seed, first)
    rng = streams(luck).actions
    wanted = grid(record, first, first + total - 1)
    rows: list[tuple[Any, ...]] = []
    weak, strong = np.zeros(f.m), np.zeros(f.m)
    started = time.perf_counter()
    for t in range(first, first + total):
        before = learner.multipliers, learner.thresholds, *learner.threshold_bounds
        played = box.play(learner.policy, rng.random(f.H), luck if t == first else None)
        learner.observe(played)
        lacking = _shortfall(played, learner)
        weak, strong = weak + lacking, strong + lacking.clip(0.0)
        if t == wanted[len(rows)]:
            rows.append(
                (played.rewards.sum(), played.constraints.sum(axis=0), *before, weak, strong)
            )
    values, constraints, multipliers, thresholds, lower, upper, weak, strong = (
        frozen(np.array(column)) for column in zip(*rows, strict=True)
    )
    return Run(
        episodes=frozen(wanted),
        values=values,
        constraint_values=constraints,
        multipliers=multipliers,
        thresholds=thresholds,
        threshold_bounds=(lower, upper),
        regret=None,  # type: ignore[arg-type]  # what only the truth could tell
        strong_regret=None,  # type: ignore[arg-type]
        violations=weak,
        strong_violations=strong,
        policy=learner.policy,
        learner=learner.learner if isinstance(learner, DurableLearner) else learner,
        optimum=float("nan"),
        seed=seed,
        track="realised",
        seconds=time.perf_counter() - started,
    )


def _fitting(env: Any, learner: Learner | DurableLearner, declarations: dict[str, Any]) -> BlackBox:
    """The environment as a box that fits the learner."""
    mine = learner.interface
    if not isinstance(env, BlackBox):
        said = {
            "horizon": mine.H,
            "senses": mine.units.senses,
            "reward_range": mine.units.reward_range,
            "constraint_ranges": mine.units.constraint_ranges,
        }
        declarations = said | declarations
    box = as_box(env, declarations)
    theirs = interface(**box.interface)
    if (mine.S, mine.A, mine.H, mine.m) != (theirs.S, theirs.A, theirs.H, theirs.m):
        raise InvalidOption(
            f"the learner is for S={mine.S}, A={mine.A}, H={mine.H}, m={mine.m}; the environment has "
            f"S={theirs.S}, A={theirs.A}, H={theirs.H}, m={theirs.m}. Make it with "
            "**env_interface(env, …) and the same declarations."
        )
    if mine.units != theirs.units:
        raise InvalidOption("the learner has other senses or ranges than the environment.")
    if (mine.mask & ~theirs.mask).any():
        raise InvalidOption("the learner may take actions that the environment does not admit.")
    if not box.shows_thresholds and learner.options.thresholds is None:
        raise InvalidOption(
            "the environment shows no thresholds, so they cannot be learned. Give thresholds= to the learner, or say "
            "where they are: thresholds=, a key of info or a function of a Step."
        )
    return box


def _another(seed: int, episode: int) -> int:
    """A seed for a learner that goes on at `episode`."""
    return int(np.random.SeedSequence(seed, spawn_key=(episode,)).generate_state(1)[0])


def _shortfall(played: Episode, learner: Learner | DurableLearner) -> Float:
    """What the constraint signals of an episode lack ``[m]``, in the user's units; positive is unsafe."""
    units, H = learner.interface.units, learner.interface.H
    if learner.options.thresholds is None:
        sampled = played.thresholds[~np.isnan(played.thresholds[:, 0])]
        asked = H * sampled.mean(axis=0) if len(sampled) else np.full(len(units.senses), np.nan)
    else:
        asked = learner.thresholds
    lacking: Float = (asked - played.constraints.sum(axis=0)) * np.sign(units.constraints.scale)
    return lacking
