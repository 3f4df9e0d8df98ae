"""What every learner promises. `test_contract.py` runs each promise over every learner and its variants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.arrays import EPISODE
from tests.support.episodes import full_mask, random_episode, random_mask

S, A, H, M = 4, 3, 3, 2
MASK = random_mask(np.random.default_rng(3), S, A)
MASK[1] = [True, False, True]
STEP_MASK = random_mask(np.random.default_rng(4), H, S, A)

GIVEN = "given"  # stands for a policy that fits the variant's mask
UNITS = {
    "senses": ["<=", ">="],
    "ranges": {"reward": (-1.0, 1.0), "constraints": [(0.0, 4.0), (2.0, 3.0)]},
}


def usual(
    options: dict[str, Any],
    names: str = "masked anytime known",
    **more: tuple[dict[str, Any], dict[str, Any]],
) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Some of the variants that any learner can have, with the options that it needs, and more of its own."""
    found: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "default": ({}, options),
        "masked": ({"action_mask": MASK, "start": None}, {**options, "window": 0.5}),
        "anytime": ({}, {**options, "episodes": None, "window": 0.3, "estimator": "pooled"}),
        "pool": ({"action_mask": STEP_MASK, "start": 2}, {"stance": 0.5, **options, "window": 0.1}),
        "known": ({}, {**options, "thresholds": [0.6, 0.9]}),
        "units": (UNITS, options),
    }
    return {name: found[name] for name in names.split()} | more


TOTAL = {"estimator": "total", "threshold_scale": 1.0}
ALWAYS: tuple[dict[str, Any], dict[str, Any]] = ({}, {"replan": "always", "stance": "optimistic"})
BASELINE = {  # so lenient that a plan is found to be safe
    "baseline": GIVEN, "slack": 0.5, "bonus_scale": 1e-4, "stance": "optimistic", "threshold_scale": 0.5
}  # fmt: skip

# Of each learner: its variants, as (interface, options). `pool` asks for the other layout of successors.
VARIANTS: dict[str, dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "spot": {
        "default": ({}, {"rho": 2.0}),
        "guarded": ({"start": None}, {"rho": 2.0, "guard": {"budget": 12.0}}),
        "masked": ({"action_mask": MASK, "start": None}, {"slack": 0.5, "window": 0.5}),
        "bernstein": ({"action_mask": STEP_MASK, "start": 2}, {"rho": 2.0, "bonus": "bernstein"}),
        "anytime": ({}, {"rho": 2.0, "episodes": None, "window": 0.3, "estimator": "pooled"}),
        "pool": ({"action_mask": MASK}, {"rho": 2.0, "stance": 0.5, "window": 0.1}),
        "known": ({}, {"rho": 2.0, "thresholds": [1.0, 2.0]}),
        "unbounded": ({}, {"rho": np.inf, "policy_step": 0.1, "dual_step": 0.1}),
        "units": (UNITS, {"slack": [2.0, 0.5]}),
        "total": (UNITS, {"rho": 2.0, **TOTAL}),
        "total-steps": ({"action_mask": MASK}, {"rho": 2.0, **TOTAL, "independent_hints": True}),
        "total-shared": ({}, {"rho": 2.0, "episodes": None, **TOTAL, "shared_threshold": True}),
        "total-window": ({"start": None}, {"rho": 2.0, **TOTAL, "window": 0.5}),
    },
    "opt-primal-dual": {"known": ({}, {"rho": 2.0, "thresholds": [1.0, 2.0]})},
    "opt-cmdp": usual({}, "default masked anytime pool known units", always=ALWAYS, total=({}, TOTAL)),
    "opt-cmdp-bonus": usual({}),
    "dope": usual(BASELINE, "masked anytime units"),
    "opt-pess-lp": usual(BASELINE),
    "opt-dual": usual({"rho": 2.0, "dual_step": 0.1}, "masked anytime units"),
    "opt-pess-primal-dual": usual({"slack": 0.5, "tightening": 0.001}),
    "regularized-primal-dual": usual(
        {"rho": 2.0, "policy_step": 0.1}, "masked anytime pool known units",
        bernstein=({}, {"slack": 1.0, "bonus": "bernstein", "bonus_scale": 0.001, "policy_step": 0.1}),
        total=({}, {"rho": 2.0, "policy_step": 0.1, **TOTAL, "shared_threshold": True, "independent_hints": True}),
    ),
    "spot-epochs": {
        "default": ({"stationary": True}, {}),
        "masked": ({"action_mask": MASK, "start": None}, {"window": 0.5, "baseline": GIVEN}),
        "anytime": ({"stationary": True}, {"episodes": None, "independent_hints": True}),
        "pool": ({"action_mask": STEP_MASK, "start": 2, "stationary": True}, {"stance": 0.5}),
        "steps": ({"start": None}, {"shared_threshold": True, "stance": "optimistic"}),
        "known": ({"stationary": True}, {"thresholds": [0.6, 0.9], "explore_budget": 9.0}),
        "units": (UNITS, {"explore_budget": [20.0, 6.0], "constraint_totals": [(0, 12), (6, 9)]}),
        "measured": ({}, {"known_rewards": np.full((S, A), 0.5), "delta": 0.5}),
        "guarded": (UNITS, {"guard": {"budget": [60.0, 9.0], "credit": False}}),
    },
    "explore-then-plan": {"default": ({"stationary": True}, {})},
    "posterior-sampling": {"default": ({"stationary": True}, {}), "pool": ({"start": None}, {})},
    "fixed": usual({"policy": GIVEN}, "masked units"),
    "uniform": usual({}, "pool"),
}  # fmt: skip
STANDING = ("fixed", "uniform")  # their policy never moves


class Subject:
    """One learner in one variant: how to make it and how to feed it."""

    def __init__(self, name: str, variant: str) -> None:
        self.name, self.variant = name, variant
        interface, options = VARIANTS[name][variant]
        self.interface = {
            "states": S, "actions": A, "horizon": H, "constraints": M, "start": 0, **interface
        }  # fmt: skip
        small = {"bonus_scale": 0.02, "threshold_scale": 0.1}
        taken = {k: v for k, v in small.items() if k in ss.learners.options(name)}
        self.options = {"episodes": 3000, **taken, **options}
        weights = self.mask * np.arange(1.0, 1.0 + A)
        given = weights / weights.sum(axis=2, keepdims=True)
        self.options = {k: given if v is GIVEN else v for k, v in self.options.items()}
        if "guard" in self.options:
            self.options["guard"] = {"baseline": given, **self.options["guard"]}

    def __repr__(self) -> str:
        return f"{self.name}-{self.variant}"

    def make(self, **changes: Any) -> Any:
        return ss.learners.make(self.name, self.interface, **{**self.options, **changes})

    def load(self, path: Path) -> Any:
        return type(self.make()).load(path)

    @property
    def mask(self) -> Any:
        return full_mask(self.interface.get("action_mask"), H, S, A)

    @property
    def first_policy(self) -> Any:
        """What is played in the first episode: the policy that was given, or all actions alike."""
        uniform = self.mask / self.mask.sum(axis=2, keepdims=True)
        return self.options.get("policy", self.options.get("baseline", uniform))

    @property
    def maps(self) -> tuple[Any, Any, Any, Any]:
        """(offset, scale) of the reward, and of the constraints, from [0,1] to the user's units."""
        if "senses" not in self.interface:
            return 0.0, 1.0, np.zeros(M), np.ones(M)
        return -1.0, 2.0, np.array([4.0, 2.0]), np.array([-4.0, 1.0])

    def episode(self, rng: np.random.Generator) -> ss.Episode:
        """A valid episode in the units of the variant."""
        e = random_episode(rng, self.mask, M, start=self.interface["start"], missing=0.2)
        low, width, offset, scale = self.maps
        return ss.Episode(
            e.states, e.actions,
            low + width * e.rewards, offset + scale * e.constraints, offset + scale * e.thresholds,
        )  # fmt: skip

    def run(self, learner: Any, seed: int, episodes: int) -> Any:
        rng = np.random.default_rng(seed)
        for _ in range(episodes):
            learner.observe(self.episode(rng))
        return learner


def saved(learner: Any, directory: Path) -> bytes:
    """The bytes of a learner's file."""
    path = directory / "learner"
    learner.save(path)
    return path.read_bytes()


def readings(learner: Any) -> list[bytes]:
    """All that a user can read, as bytes."""
    arrays = (learner.policy, learner.multipliers, learner.thresholds, *learner.threshold_bounds)
    return [str(learner.episode).encode(), *(a.tobytes() for a in arrays)]


def walk(subject: Subject, learner: Any, seed: int, episodes: int) -> Iterator[Any]:
    rng = np.random.default_rng(seed)
    yield learner
    for _ in range(episodes):
        learner.observe(subject.episode(rng))
        yield learner


def same_seed_same_run(subject: Subject, directory: Path) -> None:
    """Two learners fed the same episodes become the same, bit for bit."""
    one, two = (subject.run(subject.make(), 1, 150) for _ in range(2))
    assert readings(one) == readings(two)
    assert saved(one, directory) == saved(two, directory)
    other = subject.run(subject.make(), 2, 150)
    assert saved(other, directory) != saved(one, directory)


def policies_are_distributions(subject: Subject, directory: Path) -> None:
    """Rows sum to one, are not negative, and put nothing on inadmissible actions."""
    first = subject.first_policy
    for learner in walk(subject, subject.make(), 3, 150):
        policy = learner.policy
        assert policy.shape == (H, S, A)
        assert (policy >= 0.0).all()
        np.testing.assert_allclose(policy.sum(axis=2), 1.0, rtol=0, atol=1e-12)
        assert (policy[~subject.mask] == 0.0).all()
        if learner.episode == 1:
            np.testing.assert_allclose(policy, first, rtol=0, atol=1e-15)
    moved = np.abs(getattr(learner, "proposal", learner.policy) - first).max()
    assert moved == 0.0 if subject.name in STANDING else moved > 1e-3  # it has learned something


def multipliers_and_bounds_stay_in_their_ranges(subject: Subject, directory: Path) -> None:
    """Multipliers lie in [0, rho] (in their units), bounds in the declared ranges, lower first."""
    _, width, offset, scale = subject.maps
    ends = np.array([H * offset, H * (offset + scale)])
    for learner in walk(subject, subject.make(), 4, 150):
        lam = learner.multipliers
        assert lam.shape == (M,)
        assert (lam >= 0.0).all()
        assert (lam <= learner.rho * width / abs(scale)).all()
        lower, upper = learner.threshold_bounds
        assert lower.shape == upper.shape == learner.thresholds.shape == (M,)
        assert (lower <= upper).all()
        assert (lower >= ends.min(axis=0) - 1e-12).all()
        assert (upper <= ends.max(axis=0) + 1e-12).all()
        assert (lower - 1e-12 <= learner.thresholds).all()
        assert (learner.thresholds <= upper + 1e-12).all()
    assert learner.episode == 151


def changed(e: ss.Episode, **arrays: Any) -> ss.Episode:
    """The same episode with other arrays, as a careless user would make it."""
    names = ("states", "actions", "rewards", "constraints", "thresholds")
    return ss.Episode(*(arrays.get(name, getattr(e, name)) for name in names))


def put(array: Any, index: Any, value: Any) -> Any:
    copy = np.array(array)
    copy[index] = value
    return copy


def forbidden(subject: Subject, e: ss.Episode) -> ss.Episode:
    """An action outside of the mask, at the first place that has one."""
    h, s, a = np.argwhere(~subject.mask)[-1]
    assert h > 0
    return changed(e, states=put(e.states, h, s), actions=put(e.actions, h, a))


def arrays(e: ss.Episode) -> list[Any]:
    """The arrays of an episode, in order."""
    return [getattr(e, name) for name in EPISODE]


# What is wrong -> the episode, made from a valid one.
INVALID: dict[str, Callable[[Subject, ss.Episode], Any]] = {
    "state out of range": lambda _, e: changed(e, states=put(e.states, 1, S)),
    "state far out of range": lambda _, e: changed(e, states=put(e.states, 1, 10**9)),
    "last state out of range": lambda _, e: changed(e, states=put(e.states, H, S)),
    "negative state": lambda _, e: changed(e, states=put(e.states, 1, -1)),
    "action out of range": lambda _, e: changed(e, actions=put(e.actions, 1, A)),
    "negative action": lambda _, e: changed(e, actions=put(e.actions, 1, -1)),
    "fractional action": lambda _, e: changed(e, actions=e.actions + 0.5),
    "boolean actions": lambda _, e: changed(e, actions=np.zeros(H, bool)),
    "reward NaN": lambda _, e: changed(e, rewards=put(e.rewards, 0, np.nan)),
    "reward infinite": lambda _, e: changed(e, rewards=put(e.rewards, 0, np.inf)),
    "reward too large": lambda _, e: changed(e, rewards=put(e.rewards, 0, 1.0 + 1e-6)),
    "reward too small": lambda _, e: changed(e, rewards=put(e.rewards, 0, -1.0 - 1e-6)),
    "constraint NaN": lambda _, e: changed(e, constraints=put(e.constraints, (0, 1), np.nan)),
    "constraint too large": lambda _, e: changed(e, constraints=put(e.constraints, (2, 1), 3.1)),
    "constraint too small": lambda _, e: changed(e, constraints=put(e.constraints, (2, 0), -1e-6)),
    "threshold too large": lambda _, e: changed(e, thresholds=put(e.thresholds, 1, 4.1)),
    "threshold too small": lambda _, e: changed(e, thresholds=put(e.thresholds, 1, -1e-6)),
    "threshold half missing": lambda _, e: changed(
        e, thresholds=put(put(e.thresholds, 1, 2.0), (1, 0), np.nan)
    ),
    "too short": lambda _, e: ss.Episode(*(a[:-1] for a in arrays(e))),
    "too long": lambda _, e: ss.Episode(*(np.concatenate([a, a[-1:]]) for a in arrays(e))),
    "a state missing": lambda _, e: changed(e, states=e.states[:-1]),
    "one constraint": lambda _, e: changed(
        e, constraints=e.constraints[:, :1], thresholds=e.thresholds[:, :1]
    ),
    "three constraints": lambda _, e: changed(
        e, constraints=e.constraints[:, [0, 1, 1]], thresholds=e.thresholds[:, [0, 1, 1]]
    ),
    "no constraints": lambda _, e: changed(
        e, constraints=e.constraints[:, :0], thresholds=e.thresholds[:, :0]
    ),
    "words": lambda _, e: changed(e, rewards=["a"] * H),
    "a ragged list": lambda _, e: changed(e, constraints=[[0.0], [0.0, 1.0], [0.0]]),
    "a dictionary": lambda _, e: dict(vars(e)),
    "a tuple": lambda _, e: tuple(vars(e).values()),
    "nothing": lambda _, e: None,
    "inadmissible action": forbidden,
    "wrong start": lambda s, e: changed(
        e, states=put(e.states, 0, (s.interface["start"] + 1) % S), actions=np.zeros(H, int)
    ),
}  # fmt: skip


def applies(subject: Subject, wrong: str) -> bool:
    """Whether such an episode is wrong for this variant at all."""
    if wrong == "inadmissible action":
        return not subject.mask.all()
    return wrong != "wrong start" or subject.interface["start"] is not None


def invalid_episodes_change_nothing(subject: Subject, directory: Path) -> None:
    """An invalid episode is a `SafespotError`; the learner goes on as if it had not been there."""
    learner, untouched = (subject.run(subject.make(), 5, 40) for _ in range(2))
    before = saved(learner, directory), readings(learner)
    valid = subject.episode(np.random.default_rng(6))
    for wrong, episode in INVALID.items():
        if not applies(subject, wrong):
            continue
        with pytest.raises(ss.SafespotError) as raised:
            learner.observe(episode(subject, valid))
        assert len(str(raised.value)) > 20, wrong  # it says something
        assert (saved(learner, directory), readings(learner)) == before, wrong
    for one in (learner, untouched):
        one.observe(valid)
        subject.run(one, 7, 10)
    assert saved(learner, directory) == saved(untouched, directory)
    assert readings(learner) == readings(untouched)


def loading_goes_on_as_if_never_stopped(
    subject: Subject, directory: Path, episodes: tuple[int, ...]
) -> None:
    """Saved and loaded at any time, a learner becomes what it would have become."""
    steady, stopped = subject.make(), subject.make()
    for part, more in enumerate(episodes):
        subject.run(steady, part, more)
        subject.run(stopped, part, more)
        stopped.save(directory / "stopped")
        stopped = subject.load(directory / "stopped")
        assert readings(stopped) == readings(steady)
        assert saved(stopped, directory) == saved(steady, directory)
    assert steady.episode == sum(episodes) + 1


def damaged_files_are_refused(subject: Subject, directory: Path) -> None:
    """Any flipped byte and any cut is an `InvalidFile`."""
    data = saved(subject.run(subject.make(), 8, 30), directory)
    path = directory / "damaged"
    rng = np.random.default_rng(9)
    places = {0, 7, 8, len(data) - 1, *rng.integers(len(data), size=60).tolist()}
    for place in sorted(places):
        bad = bytearray(data)
        bad[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(bad)
        with pytest.raises(ss.errors.InvalidFile):
            subject.load(path)
    for cut in (0, 1, 8, 100, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:cut])
        with pytest.raises(ss.errors.InvalidFile):
            subject.load(path)
    path.write_bytes(data + b"\0")
    with pytest.raises(ss.errors.InvalidFile):
        subject.load(path)
    path.write_bytes(data)
    subject.load(path)
    with pytest.raises(ss.errors.InvalidFile):
        subject.load(directory / "absent")


def act_draws_from_the_policy(subject: Subject, directory: Path) -> None:
    """Actions come with the probabilities of the policy, and never from outside of the mask."""
    learner = subject.run(subject.make(), 10, 150)
    before = saved(learner, directory)
    draws = 20_000
    for h, s in ((0, subject.interface["start"] or 0), (H - 1, 1)):
        rng = np.random.default_rng(11)
        actions = [learner.act(h, s, rng) for _ in range(draws)]
        assert all(type(a) is int for a in actions[:10])
        share = np.bincount(actions, minlength=A) / draws
        assert np.abs(share - learner.policy[h, s]).max() < 5 * 0.5 / np.sqrt(draws)
        assert (share[~subject.mask[h, s]] == 0.0).all()
        rng = np.random.default_rng(11)
        assert [learner.act(h, s, rng) for _ in range(100)] == actions[:100]
    rng = np.random.default_rng(0)
    for step, state in ((-1, 0), (H, 0), (0, -1), (0, S), (0.0, 0), (0, "0"), (True, 0), (0, None)):
        with pytest.raises(ss.SafespotError):
            learner.act(step, state, rng)
    for noise in (None, 0, np.random):
        with pytest.raises(ss.SafespotError, match="rng"):
            learner.act(0, 0, noise)
    assert saved(learner, directory) == before
