"""Every finite space of Gymnasium: numbered, led back, played as the same process in other clothes, and masked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeAwareObservation, TransformAction, TransformObservation

import safespot as ss
from safespot.gym import Bin, make_discretizer
from safespot.gym.actions import admissible

H = 6
NOTHING = ss.gym.Ending(reward=0, constraints=0)
FELL: dict[str, Any] = {
    "horizon": H,
    "signals": {"constraints": lambda step: step.reward},
    "limits": ss.Limit(sense="<="),
    "endings": NOTHING,
}


def lake() -> Any:
    """Sixteen squares, four directions."""
    return gymnasium.make("FrozenLake-v1")


def bits(square: int) -> Any:
    return np.array([square >> k & 1 for k in (3, 2, 1, 0)], np.int8)


Dress = tuple[Any, Callable[[Any], Any], str]
OBSERVATIONS: dict[str, Dress] = {
    "Discrete from 5": (spaces.Discrete(16, start=5), lambda s: s + 5, "16"),
    "MultiDiscrete": (
        spaces.MultiDiscrete([4, 4], start=[1, -2]),
        lambda s: np.array([s // 4 + 1, s % 4 - 2]),
        "(4 × 4)",
    ),
    "MultiDiscrete of rank 2": (
        spaces.MultiDiscrete(np.full((2, 2), 2)),
        lambda s: bits(s).reshape(2, 2),
        "(2 × 2 × 2 × 2)",
    ),
    "MultiBinary": (spaces.MultiBinary(4), bits, "(2 × 2 × 2 × 2)"),
    "Box of whole numbers": (
        spaces.Box(np.array([-1, 0]), np.array([2, 3]), dtype=np.int32),
        lambda s: np.array([s // 4 - 1, s % 4], np.int32),
        "(4 × 4)",
    ),
    "Tuple": (
        spaces.Tuple([spaces.Discrete(4), spaces.MultiBinary(2)]),
        lambda s: (s // 4, bits(s % 4)[2:]),
        "(4 × (2 × 2))",
    ),
    "Dict": (  # a Dict sorts its keys
        spaces.Dict({"row": spaces.Discrete(4), "column": spaces.Discrete(4, start=1)}),
        lambda s: {"row": s % 4, "column": s // 4 + 1},
        "(column 4 × row 4)",
    ),
}
ACTIONS: dict[str, Dress] = {
    "Discrete from 1": (spaces.Discrete(4, start=1), lambda a: a - 1, "4"),
    "MultiDiscrete": (spaces.MultiDiscrete([2, 2]), lambda a: 2 * a[0] + a[1], "(2 × 2)"),
    "MultiBinary": (spaces.MultiBinary(2), lambda a: 2 * a[0] + a[1], "(2 × 2)"),
    "Tuple": (
        spaces.Tuple([spaces.Discrete(2)] * 2),
        lambda a: 2 * a[0] + a[1],
        "(2 × 2)",
    ),
    "Dict": (
        spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Discrete(2)}),
        lambda a: 2 * a["a"] + a["b"],
        "(a 2 × b 2)",
    ),
    "Box of whole numbers": (spaces.Box(-1, 2, (1,), np.int64), lambda a: int(a[0]) + 1, "4"),
}


def played(box: ss.gym.BlackBox, episodes: int = 20) -> list[list[Any]]:
    """Everything that uniform play shows."""
    f = box.interface
    policy = np.full((H, f["states"], f["actions"]), 1 / f["actions"])
    rng = np.random.default_rng(3)
    shown = [box.play(policy, rng.random(H), 7 if t == 0 else None) for t in range(episodes)]
    return [[e.states.tolist(), e.actions.tolist(), e.rewards.tolist()] for e in shown]


@pytest.mark.parametrize("name", OBSERVATIONS)
def test_observations_in_other_clothes_are_the_same_process(name: str) -> None:
    space, dress, parts = OBSERVATIONS[name]
    env = TransformObservation(lake(), lambda s: dress(int(s)), space)
    box, plain = ss.gym.BlackBox(env, **FELL), ss.gym.BlackBox(lake(), **FELL)
    assert [box.number(dress(s)) for s in range(16)] == list(range(16))
    for s in range(16):
        assert space.contains(box.state(s))
        assert box.number(box.state(s)) == s
    assert str(box).splitlines() == [
        f"states 0 to 15: {parts}",
        f"state 16: {NOTHING}",
        "actions 0 to 3: 4",
    ]
    assert box.state(16) == NOTHING
    assert played(box) == played(plain)


@pytest.mark.parametrize("name", ACTIONS)
def test_actions_in_other_clothes_are_the_same_process(name: str) -> None:
    space, undress, parts = ACTIONS[name]
    env = TransformAction(lake(), lambda a: int(undress(a)), space)
    box, plain = ss.gym.BlackBox(env, **FELL), ss.gym.BlackBox(lake(), **FELL)
    assert str(box).splitlines()[-1] == f"actions 0 to 3: {parts}"
    for a in range(4):
        assert space.contains(box.action(a))
        assert undress(box.action(a)) == a
    assert played(box) == played(plain)


def test_a_step_shows_the_action_as_the_environment_takes_it() -> None:
    seen: list[Any] = []

    def watch(step: ss.gym.Step) -> float:
        seen.append(step.action)
        return 0.0

    env = TransformAction(lake(), lambda a: int(2 * a[0] + a[1]), spaces.MultiDiscrete([2, 2]))
    box = ss.gym.BlackBox(env, **(FELL | {"signals": {"constraints": watch}}))
    policy = np.zeros((H, 17, 4))
    policy[:, :, 2] = 1.0
    box.play(policy, np.full(H, 0.5), 0)
    assert seen[-1].tolist() == [1, 0]


# Mixed spaces


def test_a_mixed_space_is_cut_only_where_it_is_continuous() -> None:
    cart = TimeAwareObservation(
        gymnasium.make("CartPole-v1", max_episode_steps=20), flatten=False, normalize_time=False
    )
    edges = [[0.0], [0.0], [-0.05, 0.05], [0.0]]
    box = ss.gym.BlackBox(
        cart,
        horizon=20,
        states={"obs": edges},
        signals={"constraints": lambda step: float(step.ended)},
        endings=NOTHING,
    )
    assert box.interface["states"] == 24 * 21 + 1
    assert str(box).startswith(
        "states 0 to 503: (obs (2 bins × 2 bins × 3 bins × 2 bins) × time 21)"
    )
    observation, _ = cart.reset(seed=0)
    number = box.number(observation)
    assert number % 21 == 0  # the time counts fastest
    found = box.state(number)
    assert found["time"].tolist() == [0]
    assert all(
        part.low <= value < part.high
        for part, value in zip(found["obs"], observation["obs"].tolist(), strict=True)
    )
    observation, *_ = cart.step(1)
    assert box.number(observation) % 21 == 1


def test_parts_are_named_by_key_or_position() -> None:
    pair = spaces.Tuple([spaces.Discrete(2), spaces.Box(0.0, 1.0, (1,))])
    for bins in ([None, [[0.5]]], {1: [[0.5]]}, {1: 2}):
        found = make_discretizer(pair, bins)
        assert found.number((1, [0.7])) == 3
        assert found.inverse is not None
        assert found.inverse(3) == (1, (Bin(0.5, 1.0),))
    assert ss.gym.warm_up(
        TimeAwareObservation(gymnasium.make("CartPole-v1"), flatten=False), 2, episodes=1
    ).keys() == {"obs", "time"}
    gauge = spaces.Box(0, 255, (2,), np.uint8)
    cut = make_discretizer(gauge, [None, [128.0]])
    assert cut.states == 512
    assert cut.number(np.array([3, 200], np.uint8)) == 7
    assert make_discretizer(gauge).states == 65_536


@pytest.mark.parametrize(
    ("space", "bins", "words"),
    [
        (spaces.Dict({"speed": spaces.Discrete(2)}), {"sped": 3}, "did you mean `speed`"),
        (spaces.Dict({"speed": spaces.Discrete(2)}), 3, "must be a dict of those of its parts"),
        (spaces.Dict({"speed": spaces.Box(0, 1)}), None, "must be cut into bins"),
        (spaces.MultiDiscrete([2, 2]), 3, "bins are for Box"),
        (spaces.Box(0, 255, (84, 84), np.uint8), None, r"has about 10\^16993 values"),
        (spaces.Box(0.0, 1.0, (2,)), [None, 2], "bins must be a whole number"),
        (spaces.Text(3), None, "cannot be numbered"),
        (spaces.Sequence(spaces.Discrete(2)), None, "cannot be numbered"),
    ],
)
def test_what_cannot_be_numbered_says_why(space: Any, bins: Any, words: str) -> None:
    with pytest.raises(ss.errors.InvalidOption, match=words):
        make_discretizer(space, bins)


def test_numbers_that_stand_for_nothing_are_refused() -> None:
    box = ss.gym.BlackBox(lake(), **FELL)
    wrong: list[tuple[Any, Any]] = [
        (box.state, 17),
        (box.action, 4),
        (box.state, -1),
        (box.state, 0.5),
    ]
    for ask, number in wrong:
        with pytest.raises(ss.errors.InvalidOption):
            ask(number)
    own = ss.gym.BlackBox(lake(), **FELL, states=ss.gym.Discretizer(16, int))
    with pytest.raises(ss.errors.InvalidOption, match="cannot lead back"):
        own.state(0)
    few = ss.gym.BlackBox(lake(), **FELL, states=ss.gym.Discretizer(1, lambda seen: int(seen > 0)))
    with pytest.raises(ss.errors.InvalidEpisode, match="the discretizer made state 1"):
        few.play(np.full((H, 2, 4), 0.25), np.full(H, 0.5), 7)
    both = ss.gym.BlackBox(lake(), **FELL, states=ss.gym.Discretizer(16, int, inverse=str))
    assert both.state(3) == "3"
    assert "a discretizer of your own" in str(both)


# Masks


class Strict(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A lake where no move may lead off the board: another one is an error. It shows masks by either habit."""

    def __init__(self, habit: str) -> None:
        super().__init__(lake())
        self.habit, self.square = habit, 0
        self.taken: list[int] = []

    def allowed(self) -> Any:
        row, column = divmod(self.square, 4)
        return np.array([column > 0, row < 3, column < 3, row > 0], np.int8)

    def info(self) -> dict[str, Any]:
        return {"action_mask": self.allowed()} if self.habit == "info" else {}

    def reset(self, **options: Any) -> Any:
        self.square, _ = self.env.reset(**options)
        return self.square, self.info()

    def step(self, action: int) -> Any:
        assert self.allowed()[action], "off the board"
        self.taken.append(action)
        self.square, reward, ended, truncated, _ = self.env.step(action)
        return self.square, reward, ended, truncated, self.info()


class Asked(Strict):
    def action_masks(self) -> Any:
        return self.allowed().astype(bool)


@pytest.mark.parametrize("env", [Strict("info"), Asked("method")], ids=["info", "method"])
def test_inadmissible_actions_are_never_taken(env: Strict) -> None:
    wrapped = gymnasium.wrappers.TimeLimit(
        env, 50
    )  # which passes on no method that it does not know
    box = ss.gym.BlackBox(wrapped, **FELL)
    policy = np.zeros((H, 17, 4))
    policy[:, :, 3] = 1.0  # up, which the first row does not admit
    env.taken.clear()
    episode = box.play(policy, np.full(H, 0.5), 0)
    steps = len(env.taken)
    assert env.taken[0] == 1  # the lowest one that the corner admits
    assert episode.actions[:steps].tolist() == [3] * steps  # as it was drawn
    learner = ss.Spot(**box.interface, episodes=20, slack=0.5, thresholds=[0.5])
    ss.learn(box, learner)  # every step would raise otherwise


def test_a_mask_that_is_no_mask_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for mask, words in (
        (np.zeros(4, np.int8), "admits no action"),
        (np.ones(3, np.int8), "for each of 4 choices"),
        (np.full(4, 0.5), "for each of 4 choices"),
        (np.full(4, 2), "for each of 4 choices"),
    ):
        env = Strict("info")
        box = ss.gym.BlackBox(env, **FELL)
        monkeypatch.setattr(env, "allowed", lambda mask=mask: mask)
        with pytest.raises(ss.errors.InvalidEpisode, match=words):
            box.play(np.full((H, 17, 4), 0.25), np.full(H, 0.5), 0)


def test_masks_of_combinations_are_those_of_their_parts() -> None:
    pair = spaces.MultiDiscrete([2, 3])
    expected = [False, False, False, True, False, True]  # (1, 0) and (1, 2)
    parts = np.array([0, 1], np.int8), np.array([1, 0, 1], np.int8)
    assert admissible(pair, parts).tolist() == expected  # as Gymnasium samples
    assert admissible(pair, np.concatenate(parts)).tolist() == expected  # as SB3 asks
    both = spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Discrete(3)})
    assert admissible(both, {"a": parts[0], "b": parts[1]}).tolist() == expected
    assert admissible(spaces.MultiBinary(2), np.array([1, 0, 1, 1])).tolist() == [
        True, True, False, False,
    ]  # fmt: skip
    for sampled in (pair.sample(mask=parts) for _ in range(10)):
        assert expected[3 * sampled[0] + sampled[1]]
