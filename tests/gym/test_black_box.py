"""Environments as black boxes: discretizers, declared signals and endings, and learning in them."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import safespot as ss
from safespot.gym import ProblemEnv, make_discretizer, warm_up

NOTHING = ss.gym.Ending(reward=0, constraints=0)
COST = ss.Limit(sense="<=")


class Corridor(gymnasium.Env[Any, Any]):
    """Three squares; action 1 moves on and costs 1, and the third square ends the walk with reward 1."""

    observation_space: Any = spaces.Discrete(3)
    action_space: Any = spaces.Discrete(2)

    def __init__(
        self, *, six: bool = False, key: str | None = "cost", threshold: bool = True
    ) -> None:
        self.six, self.key, self.threshold = six, key, threshold

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.square = 0
        return 0, {}

    def step(self, action: int) -> Any:
        self.square += action
        ended = self.square == 2
        info: dict[str, Any] = (
            {} if self.key is None or self.six else {self.key: np.array([float(action)])}
        )
        if self.threshold:
            info["threshold"] = np.array([0.5])
        cost = (float(action),) if self.six else ()
        return self.square, float(ended), *cost, ended, False, info


def walk(actions: list[int], states: int = 4) -> Any:
    """The policy that takes these actions, whatever the state."""
    policy = np.zeros((len(actions), states, 2))
    policy[np.arange(len(actions)), :, actions] = 1.0
    return policy


def test_an_early_end_is_padded_with_what_its_ending_declares() -> None:
    box = ss.gym.BlackBox(
        Corridor(), horizon=4, endings=ss.gym.Ending(reward=0.25, constraints=0.75)
    )
    played = box.play(walk([1, 1, 1, 1]), np.full(4, 0.5))
    assert played.states.tolist() == [0, 1, 3, 3, 3]
    assert played.actions.tolist() == [1, 1, 0, 0]  # the lowest admissible one
    assert played.rewards.tolist() == [0.0, 1.0, 0.25, 0.25]
    assert played.constraints.ravel().tolist() == [1.0, 1.0, 0.75, 0.75]
    np.testing.assert_array_equal(played.thresholds.ravel(), [0.5, 0.5, np.nan, np.nan])


def test_an_end_at_the_horizon_needs_no_ending() -> None:
    box = ss.gym.BlackBox(Corridor(), horizon=2)
    assert box.play(walk([1, 1], 3), np.full(2, 0.5)).states.tolist() == [0, 1, 2]
    with pytest.raises(ss.errors.InvalidEpisode, match="ended early, with 2, and no ending"):
        ss.gym.BlackBox(Corridor(), horizon=3).play(walk([1, 1, 1], 3), np.full(3, 0.5))


def test_endings_are_told_apart_by_state_or_by_a_function() -> None:
    by_state = ss.gym.BlackBox(Corridor(), horizon=3, endings={2: NOTHING})
    assert by_state.play(walk([1, 1, 1]), np.full(3, 0.5)).states.tolist() == [0, 1, 3, 3]
    endings = {"early": ss.gym.Ending(0, 1), "late": NOTHING}
    box = ss.gym.BlackBox(
        Corridor(),
        horizon=3,
        endings=endings,
        ending_of=lambda step: "late" if step.reward else "early",
    )
    assert box.play(walk([1, 1, 1], 5), np.full(3, 0.5)).states.tolist() == [0, 1, 4, 4]


def test_the_interface_of_an_environment() -> None:
    interface = ss.gym.env_interface(Corridor(), horizon=4, endings=NOTHING, start=0)
    assert interface["states"] == 4
    assert interface["actions"] == 2
    assert interface["horizon"] == 4
    assert interface["constraints"] == 1
    assert interface["start"] == 0
    assert interface["senses"] == ("<=",)
    assert interface["action_mask"].tolist() == [[True, True]] * 3 + [[True, False]]
    assert ss.gym.env_interface(Corridor(key="constraint"), horizon=4)["senses"] == (">=",)
    assert ss.gym.env_interface(Corridor(), horizon=4)["action_mask"] is None
    ss.Spot(**interface, episodes=10, slack=1.0)


@pytest.mark.parametrize(
    ("env", "declared"),
    [
        (Corridor(), {}),
        (Corridor(key="constraint"), {"limits": COST}),
        (Corridor(six=True), {}),
        (Corridor(key="strain"), {"signals": {"constraints": "strain"}, "limits": COST}),
        (
            Corridor(key=None),
            {"signals": {"constraints": lambda step: step.action}, "limits": COST},
        ),
    ],
)
def test_signals_are_found_where_they_are(env: Corridor, declared: dict[str, Any]) -> None:
    box = ss.gym.BlackBox(env, horizon=3, **declared)
    assert box.interface["senses"] == ("<=",)
    played = box.play(walk([0, 1, 0], 3), np.full(3, 0.5))
    assert played.constraints.ravel().tolist() == [0.0, 1.0, 0.0]
    assert played.thresholds.ravel().tolist() == [0.5, 0.5, 0.5]


@pytest.mark.parametrize("sample", [0.25, [0.25], np.array([0.25])])
def test_a_step_may_lack_a_threshold_sample(sample: Any) -> None:
    box = ss.gym.BlackBox(
        Corridor(),
        horizon=3,
        signals={"thresholds": lambda step: sample if step.state == 0 else None},
    )
    played = box.play(walk([0, 1, 0], 3), np.full(3, 0.5))
    np.testing.assert_array_equal(played.thresholds.ravel(), [0.25, 0.25, np.nan])


@pytest.mark.parametrize("wrong", [None, "much", [0.5, 0.5], np.nan])
def test_a_step_without_its_constraints_is_an_error(wrong: Any) -> None:
    box = ss.gym.BlackBox(
        Corridor(),
        horizon=2,
        signals={"constraints": lambda step: 0.5 if step.state == 0 else wrong},
    )
    with pytest.raises(ss.errors.InvalidEpisode, match="constraints"):
        box.play(walk([1, 0], 3), np.full(2, 0.5))


def test_a_time_limit_below_the_horizon_is_an_error() -> None:
    short = gymnasium.wrappers.TimeLimit(Corridor(), 2)
    with pytest.raises(ss.errors.InvalidEpisode, match="time limit cut an episode off after"):
        ss.gym.BlackBox(short, horizon=3).play(walk([0, 0, 0], 3), np.full(3, 0.5))
    assert (
        ss.gym.BlackBox(short, horizon=2).play(walk([0, 0], 3), np.full(2, 0.5)).states.tolist()
        == [0] * 3
    )


@pytest.mark.parametrize(("reward", "cost"), [(-0.1, 0.5), (1.1, 0.5), (0.5, -0.1), (0.5, 1.1)])
def test_an_ending_pays_what_the_ranges_allow(reward: float, cost: float) -> None:
    ending = ss.gym.Ending(reward=reward, constraints=cost)
    with pytest.raises(ss.errors.InvalidOption, match=r"an ending pays and counts .* outside"):
        ss.gym.BlackBox(Corridor(), horizon=4, endings=ending)
    ss.gym.BlackBox(Corridor(), horizon=4, endings=ending, clip=True)


def test_what_is_outside_its_range_is_an_error_unless_clipped() -> None:
    declared: dict[str, Any] = {
        "horizon": 2, "signals": {"rewards": lambda step: 3.0}, "ranges": {"reward": (-1, 2)},
    }  # fmt: skip
    learner = ss.Spot(**ss.gym.env_interface(Corridor(), **declared), episodes=5, slack=1.0)
    with pytest.raises(ss.errors.InvalidEpisode, match=r"episode 1, step 0, rewards: 3\.0"):
        ss.learn(Corridor(), learner, **declared)
    run = ss.learn(Corridor(), learner, **declared, clip=True)
    assert run.values[-1] == 4.0


@pytest.mark.parametrize("high", [1e-3, 1.0, 1e5])
def test_rounding_may_take_a_signal_out_of_its_range(high: float) -> None:
    """By a billionth of the range, however wide that is."""
    earned = [0.0]
    box = ss.gym.BlackBox(
        Corridor(),
        horizon=2,
        signals={"rewards": lambda step: earned[0]},
        ranges={"reward": (0, high)},
    )
    for earned[0] in (-5e-10 * high, (1 + 5e-10) * high):
        box.play(walk([0, 0], 3), np.full(2, 0.5))
    for earned[0] in (-2e-9 * high, (1 + 2e-9) * high):
        with pytest.raises(ss.errors.InvalidEpisode, match="lies outside its declared range"):
            box.play(walk([0, 0], 3), np.full(2, 0.5))


@pytest.mark.parametrize(
    ("env", "declared", "words"),
    [
        (Corridor(), {}, "give horizon="),
        (Corridor(), {"horizon": 0}, "horizon must be at least 1"),
        (Corridor(key=None), {"horizon": 2}, "shows no constraint signals"),
        (Corridor(), {"horizon": 2, "signals": {"constraints": lambda step: [[1]]}}, r"a number or \[m\] numbers"),
        (Corridor(), {"horizon": 2, "signals": {"constraints": lambda step: "x"}}, "real numbers"),
        (Corridor(), {"horizon": 2, "endings": 0}, "endings must be an Ending"),
        (Corridor(), {"horizon": 2, "endings": ss.gym.Ending(0, [0, 0])}, "each of the 1 constraints"),
        (Corridor(), {"horizon": 2, "action_mask": [[True]]}, "action_mask has"),
        (Corridor(), {"horizon": 2, "states": 3}, "bins are for Box"),
        (Corridor(), {"horizon": 2, "sense": "<="}, "did you mean `senses`"),
        (gymnasium.make("Pendulum-v1"), {"horizon": 2, "states": 3}, "expected Discrete"),
        (gymnasium.make("CartPole-v1"), {"horizon": 2}, r"must be cut into bins. Give states="),
        ("CartPole-v1", {"horizon": 2}, "expected a Gymnasium environment"),
        (gymnasium.make("CartPole-v1"), {"horizon": 2, "states": 4}, "cannot be cut evenly"),
    ],
)  # fmt: skip
def test_wrong_declarations_are_refused(env: Any, declared: dict[str, Any], words: str) -> None:
    with pytest.raises(ss.errors.InvalidOption, match=words):
        ss.gym.BlackBox(env, **declared)
    assert any(ss.gym.check_env(env, **declared))  # and told in words


# Discretizers


def test_boxes_are_cut_at_their_edges() -> None:
    box = spaces.Box(np.array([0.0, -1.0]), np.array([1.0, 1.0]), dtype=np.float64)
    states, number, *_ = make_discretizer(box, [2, [0.0]])
    assert states == 4
    assert [number(np.array(x)) for x in ([0.2, -1], [0.2, 0.0], [0.5, -0.1], [1.0, 1.0])] == [
        0,
        1,
        2,
        3,
    ]
    assert make_discretizer(box, 3).states == 9
    both = spaces.Tuple([box, spaces.Discrete(3, start=1)])
    states, number, *_ = make_discretizer(both, [[2, [0.0]], None])
    assert states == 12
    assert number((np.array([0.5, -0.1]), 2)) == 2 * 3 + 1
    for bins in ([2], [2, [1.0, 0.0]], [2, "x"], [2, [[1.0]]], 0, 1.5):
        with pytest.raises(ss.errors.InvalidOption):
            make_discretizer(box, bins)
    with pytest.raises(ss.errors.InvalidOption, match="must be a dict of those of its parts"):
        make_discretizer(both, 3)
    with pytest.raises(ss.errors.InvalidOption, match="cannot be numbered"):
        make_discretizer(spaces.Text(3))


def test_a_warm_up_finds_equally_frequent_bins() -> None:
    cart = gymnasium.make("CartPole-v1")
    bins = warm_up(cart, 3, episodes=30, seed=1)
    assert [len(edges) for edges in bins] == [2, 2, 2, 2]
    assert bins == warm_up(cart, 3, episodes=30, seed=1)
    states, number, *_ = make_discretizer(cart.observation_space, bins)
    assert states == 81
    assert 0 <= number(cart.reset(seed=0)[0]) < 81
    assert warm_up(gymnasium.make("Blackjack-v1"), 3) == [None, None, None]
    pair = spaces.Tuple([spaces.Box(-1.0, 1.0, (1,)), spaces.Discrete(2)])
    paired = gymnasium.wrappers.TransformObservation(
        gymnasium.make("MountainCar-v0"), lambda o: (o[:1], 0), pair
    )
    assert [None if cut is None else len(cut[0]) for cut in warm_up(paired, 4, episodes=1)] == [
        3,
        None,
    ]


class Endless(gymnasium.Env[Any, Any]):
    """Shows how many steps were taken, and is cut off after four; it never ends by itself."""

    observation_space: Any = spaces.Box(0.0, 100.0, (1,))
    action_space: Any = spaces.Discrete(2)

    def __init__(self, *, six: bool) -> None:
        self.cost = (0.0,) if six else ()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> Any:
        assert self.steps < 4, "an episode that was cut off goes on"
        self.steps += 1
        seen = np.full(1, self.steps, np.float32)
        return seen, 0.0, *self.cost, False, self.steps == 4, {}


@pytest.mark.parametrize("six", [False, True])
def test_a_warm_up_stops_where_a_time_limit_does(six: bool) -> None:
    assert warm_up(Endless(six=six), 2, episodes=3) == [[2.0]]  # the middle of 0 to 4
    assert warm_up(Endless(six=six), 1, episodes=1) == [[]]  # a single bin
    for wrong in ({"bins": 0}, {"bins": 2, "episodes": 0}):
        with pytest.raises(ss.errors.InvalidOption, match="must be at least 1"):
            warm_up(Endless(six=six), **wrong)


# Learning


def spot(interface: dict[str, Any], episodes: int = 60, **options: Any) -> ss.Spot:
    return ss.Spot(**interface, episodes=episodes, rho=2.0, bonus_scale=0.01, **options)


@pytest.mark.parametrize("name", ["machine", "triage", "frozen-lake", "taxi"])
def test_a_problem_as_a_black_box_is_learned_as_by_its_table(name: str) -> None:
    problem = ss.problems.make(name)
    env = gymnasium.make(f"safespot/{name}-v0")
    interface = ss.gym.env_interface(env)
    for key, value in problem.interface.items():
        np.testing.assert_array_equal(interface[key], value)
    ours, theirs = spot(interface), spot(problem.interface)
    seed = 2**64 + 3  # any whole number is a seed, for both
    realized = ss.learn(env, ours, seed=seed)
    exact = ss.learn(problem, theirs, seed=seed)
    np.testing.assert_array_equal(ours.policy, theirs.policy)
    for curve in ("episodes", "multipliers", "thresholds", "threshold_bounds"):
        np.testing.assert_array_equal(getattr(realized, curve), getattr(exact, curve))


def test_a_run_holds_realised_sums() -> None:
    env = gymnasium.make("safespot/machine-v0")
    problem = ss.problems.make("machine")
    learner = spot(problem.interface)
    run = ss.learn(env, learner, seed=2, record="all")
    assert run.regret is None
    assert run.strong_regret is None
    assert np.isnan(run.optimum)
    assert run.learner is learner
    by_hand, streams = spot(problem.interface), ss.streams(2)
    violations = strong = 0.0
    for t in range(1, 61):
        played = ss.play(problem, by_hand.policy, streams, t)
        by_hand.observe(played)
        lacking = (played.constraints - played.thresholds).sum()
        violations, strong = violations + lacking, strong + max(lacking, 0.0)
        assert run.values[t - 1] == played.rewards.sum()
        assert run.constraint_values[t - 1] == played.constraints.sum()
        assert run.violation[t - 1] == pytest.approx(violations)
        assert run.strong_violation[t - 1] == pytest.approx(strong)
    assert run.episodes.tolist() == list(range(1, 61))


def test_a_learner_goes_on_with_new_noise() -> None:
    env = gymnasium.make("safespot/machine-v0")
    learner = spot(ss.problems.make("machine").interface)
    first = ss.learn(env, learner, 30, seed=0, record="all")
    second = ss.learn(env, learner, seed=0, record="all")
    assert second.episodes.tolist() == list(range(31, 61))
    assert first.values.tolist() != second.values.tolist()


def test_what_does_not_fit_is_refused() -> None:
    declared: dict[str, Any] = {"horizon": 4, "endings": NOTHING}
    interface = ss.gym.env_interface(Corridor(), **declared)
    box = ss.gym.BlackBox(Corridor(), **declared)
    assert ss.gym.env_interface(box) is box.interface
    with pytest.raises(ss.errors.InvalidOption, match="has its declarations already"):
        ss.gym.env_interface(box, horizon=3)
    with pytest.raises(ss.errors.InvalidOption, match="takes a learner"):
        ss.learn(box, "spot")  # type: ignore[arg-type]
    with pytest.raises(ss.errors.InvalidOption, match="the learner is for S=3"):
        ss.learn(box, spot(interface | {"states": 3, "action_mask": None}))
    with pytest.raises(ss.errors.InvalidOption, match="does not admit"):
        ss.learn(box, spot(interface | {"action_mask": None}))
    with pytest.raises(ss.errors.InvalidOption, match="other senses or ranges"):
        ss.learn(box, spot(interface | {"senses": ">="}))
    blind = ss.gym.BlackBox(Corridor(threshold=False), **declared)
    with pytest.raises(ss.errors.InvalidOption, match="shows no thresholds"):
        ss.learn(blind, spot(blind.interface))
    run = ss.learn(blind, spot(blind.interface, thresholds=[1.0]), 5)
    assert np.isfinite(run.violation).all()


# Environments that misbehave


class Rogue(Corridor):
    """A corridor that does something wrong at step 1 of episode 4 and is fine again afterwards."""

    def __init__(self, fault: Any) -> None:
        super().__init__()
        self.fault, self.begun, self.taken = fault, -1, 0

    def reset(self, **options: Any) -> Any:
        self.begun += 1  # the box itself has begun one to look at it
        self.taken = 0
        return super().reset(**options)

    def step(self, action: int) -> Any:
        self.taken += 1
        square, reward, ended, cut, info = super().step(action)
        if (self.begun, self.taken) == (4, 2):
            return self.fault(square, reward, ended, cut, info)
        return square, reward, ended, cut, info


def crash(*_: Any) -> Any:
    raise RuntimeError("the pump is stuck")


FAULTS: dict[str, tuple[Any, str]] = {
    "nan reward": (lambda s, r, e, c, i: (s, np.nan, e, c, i), "rewards: nan lies outside"),
    "wide reward": (lambda s, r, e, c, i: (s, 7.0, e, c, i), r"rewards: 7\.0 lies outside"),
    "no cost": (lambda s, r, e, c, i: (s, r, e, c, {"threshold": 0.5}), "constraints: info has no 'cost'"),
    "nan cost": (lambda s, r, e, c, i: (s, r, e, c, {**i, "cost": np.nan}), r"constraints\[0\]: nan lies"),
    "wide threshold": (lambda s, r, e, c, i: (s, r, e, c, {**i, "threshold": -2.0}), r"thresholds\[0\]: -2\.0 lies"),
    "state outside": (lambda s, r, e, c, i: (3, r, e, c, i), "state: 3 is not one of the 3 numbers"),
    "state array": (lambda s, r, e, c, i: (np.zeros(2), r, e, c, i), "state: TypeError was raised"),
    "nothing": (lambda *_: None, "step: TypeError was raised"),
    "a crash": (crash, "step: RuntimeError was raised: the pump is stuck"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_what_cannot_be_is_named_and_the_learner_goes_on(fault: str) -> None:
    does, words = FAULTS[fault]
    declared: dict[str, Any] = {"horizon": 4, "endings": NOTHING, "start": 0}
    box, sound = ss.gym.BlackBox(Rogue(does), **declared), ss.gym.BlackBox(Corridor(), **declared)
    learner, expected = spot(box.interface), spot(box.interface)
    with pytest.raises(ss.errors.InvalidEpisode, match=f"^episode 4, step 1, {words}") as caught:
        ss.learn(box, learner, seed=5, record="all")
    assert learner.episode == 4
    run = caught.value.run  # type: ignore[attr-defined]
    assert run.episodes.tolist() == [1, 2, 3]
    ss.learn(sound, expected, 3, seed=5)
    np.testing.assert_array_equal(learner.policy, expected.policy)
    assert ss.learn(box, learner, seed=5, record="all").episodes.tolist() == list(range(4, 61))


@pytest.mark.parametrize("durable", [False, True])
def test_an_episode_that_failed_is_counted_by_the_next_one(durable: bool, tmp_path: Path) -> None:
    """It may have failed for what happened in it, and the others look well because it is not among them."""
    box = ss.gym.BlackBox(Rogue(crash), horizon=4, endings=NOTHING, start=0)
    with ss.open(tmp_path / "it", spot(box.interface)) if durable else nullcontext() as opened:
        learner = opened or spot(box.interface)
        with pytest.raises(ss.errors.InvalidEpisode) as caught:
            ss.learn(box, learner, seed=5)
        assert caught.value.run.evidence.doubts == ()  # type: ignore[attr-defined]
        assert ss.certify(learner).doubts == ()
        run = ss.learn(box, learner, 3, seed=5)
        assert [episode.rejected for _, episode in run.replay()] == [1, 0, 0]
        assert run.evidence.doubts
        assert ss.certify(learner).doubts
    if durable:
        with ss.open(tmp_path / "it") as learner:
            assert ss.certify(learner).doubts


def test_a_sample_of_thresholds_is_whole_or_absent() -> None:
    box = ss.gym.BlackBox(
        Corridor(), horizon=2, signals={
            "constraints": lambda step: [0.0, 1.0],
            "thresholds": lambda step: [0.5, 0.5] if step.state == 0 else [0.5, np.nan],
        },
    )  # fmt: skip
    played = box.play(walk([0, 0], 3), np.full(2, 0.5))
    assert played.thresholds.tolist() == [[0.5, 0.5]] * 2
    for signals in (played.constraints, played.thresholds):  # as kernels are compiled for
        assert signals.flags.c_contiguous
    with pytest.raises(ss.errors.InvalidEpisode, match=r"step 1, thresholds\[1\]: nan lies"):
        box.play(walk([1, 0], 3), np.full(2, 0.5))


def test_an_error_of_the_environment_is_the_cause() -> None:
    box = ss.gym.BlackBox(Rogue(crash), horizon=4, endings=NOTHING)
    with pytest.raises(ss.errors.InvalidEpisode) as caught:
        ss.learn(box, spot(box.interface))
    assert isinstance(caught.value.__cause__, RuntimeError)
    broken = Corridor()
    broken.step = crash  # type: ignore[method-assign, assignment]
    with pytest.raises(ss.errors.InvalidOption, match="first step fails: RuntimeError: the pump"):
        ss.gym.BlackBox(broken, horizon=4)
    with pytest.raises(ss.errors.InvalidOption, match="shows no signals: ZeroDivisionError"):
        ss.gym.BlackBox(Corridor(), horizon=4, signals={"constraints": lambda step: 1 // 0})
    with pytest.raises(ss.errors.InvalidOption, match="shows no signals: info has no 'x'"):
        ss.gym.BlackBox(Corridor(), horizon=4, signals={"constraints": "x"})
    with pytest.raises(ss.errors.InvalidOption, match="expected a Gymnasium environment, got"):
        ss.gym.BlackBox(Corridor, horizon=4)


@pytest.mark.parametrize("info", [None, "cost"])
@pytest.mark.parametrize("call", ["reset", "step"])
@pytest.mark.parametrize("six", [False, True])
def test_an_info_that_is_no_mapping_is_named(six: bool, call: str, info: Any) -> None:
    class Odd(Corridor):
        odd = True

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            observation, shown = super().reset(seed=seed)
            return observation, info if self.odd and call == "reset" else shown

        def step(self, action: int) -> Any:
            *rest, shown = super().step(action)
            return *rest, info if self.odd and call == "step" else shown

    env = Odd(six=six)
    with pytest.raises(ss.errors.InvalidOption, match=f"{call} returned .* as its info"):
        ss.gym.BlackBox(env, horizon=4, endings=NOTHING)
    assert any("as its info" in sentence for sentence in ss.gym.check_env(env, horizon=4))
    env.odd = False
    box = ss.gym.BlackBox(env, horizon=4, endings=NOTHING)
    env.odd = True
    with pytest.raises(ss.errors.InvalidEpisode, match=f"step 0.* {call} returned .* as its info"):
        box.play(walk([1] * 4), np.full(4, 0.5))


# The checker


def test_a_sound_environment_is_found_sound() -> None:
    assert ss.gym.check_env(Corridor(), horizon=4, endings=NOTHING) == []
    assert ss.gym.check_env(ProblemEnv("triage")) == []


def test_the_checker_says_what_is_missing_or_odd() -> None:
    (missing,) = ss.gym.check_env(Corridor(), horizon=8)
    assert "no ending is declared" in missing
    (blind,) = ss.gym.check_env(Corridor(threshold=False), horizon=4, endings=NOTHING)
    assert "no thresholds are shown" in blind
    (wide,) = ss.gym.check_env(
        Corridor(), horizon=4, endings=NOTHING, signals={"rewards": lambda step: 5.0 * step.action}
    )
    assert "rewards were seen from 0 to 5; their declared range is 0 to 1" in wide
    (nan,) = ss.gym.check_env(
        Corridor(),
        horizon=4,
        endings=NOTHING,
        signals={"rewards": lambda step: np.nan if step.action else 1.0},
    )[:1]
    assert nan.startswith("rewards were NaN in ")
    found = ss.gym.check_env(Rogue(crash), horizon=4, endings=NOTHING)
    assert found == ["step 1, step: RuntimeError was raised: the pump is stuck"]
    (flat,) = ss.gym.check_env(
        Corridor(), horizon=4, signals={"rewards": lambda step: 0.0}, endings=NOTHING
    )
    assert "rewards were always 0" in flat
    (start,) = ss.gym.check_env(Corridor(), horizon=4, endings=NOTHING, start=1)
    assert "did not start in state 1" in start
    assert ss.gym.check_env(object())


class Late(Corridor):
    """Shows a threshold at the last square only."""

    def step(self, action: int) -> Any:
        after, reward, ended, truncated, info = super().step(action)
        if not ended:
            info.pop("threshold")
        return after, reward, ended, truncated, info


@pytest.mark.parametrize(
    "thresholds",
    [None, "threshold", lambda step: step.info.get("threshold")],
    ids=["default", "key", "function"],
)
def test_the_first_step_need_not_show_a_threshold(thresholds: Any) -> None:
    declared: dict[str, Any] = {
        "horizon": 3, "signals": {"thresholds": thresholds}, "endings": ss.gym.Ending(reward=0.0, constraints=0.0),
    }  # fmt: skip
    box = ss.gym.BlackBox(Late(), **declared)
    assert box.shows_thresholds
    played = box.play(walk([1, 1, 1]), np.full(3, 0.5))
    assert np.isnan(played.thresholds[:, 0]).tolist() == [True, False, True]
    learner = ss.Spot(**ss.gym.env_interface(Late(), **declared), episodes=5, slack=1.0)
    ss.learn(Late(), learner, **declared)
    assert learner.episode == 6
