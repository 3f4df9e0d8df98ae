"""Training: time per episode beside a plain compiled loop and NumPy, and beside one pass of copying and of exp.

Machines are noisy, so both sides of a ratio take turns in short slices, and the ratio is the median over the turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numba
import numpy as np

import safespot as ss
from safespot.arrays import Float, InsideEpisode
from safespot.model.cmdp import Model
from safespot.model.simulation import Laws, Noise, as_laws, draw_noise, play_kernel
from safespot.problems import make
from safespot.spot.limits import has_room
from safespot.spot.visits import Statistics, add_visit, empty_statistics
from safespot.spot.window import Window, add_to_window
from safespot.training import learn as training

from .compiled_reference import CompiledSpot
from .numpy_reference import PlainSpot, TunedSpot
from studies.record import Benchmark, Row

T = 10**7  # the episodes that learners are told of; radii and step sizes follow from it
ROUNDS = 21
SLICE = 0.05  # seconds of a side's turn, about
TOUCHED = (
    6  # arrays [H,S,A] of a step: policy, logits, visits, two sums of signals, optimistic values
)
TIMES = 2.0  # as fast as the plain compiled loop at least, or something was lost
AGREE = 1e-9  # how far regret and violation of both sides may differ, relatively
MICRO = 1e6


# Our side


class Training:
    """A learner at work, in slices; `learn` would begin each of them with the noise of all episodes before."""

    def __init__(
        self,
        problem: ss.Problem,
        *,
        bonus_scale: float,
        track: str,
        rho: float | None = None,
        episodes: int = T,
        lists: bool = False,
        after: int = 0,
    ) -> None:
        self.learner = ss.Spot(
            **problem.interface,
            episodes=episodes,
            rho=ss.slater(problem.cmdp).rho if rho is None else rho,
            bonus_scale=bonus_scale,
        )
        if lists:  # the layout that large problems have
            f = self.learner.interface
            self.learner.statistics = empty_statistics(f.H, f.S, f.A, f.m, dense=False)
        if after > 0:
            remember(problem, self.learner, after)
        # Recorded: the first episode, and the last, which is never reached. What one costs is in the section of the
        # oracle.
        self.training = training.Training(problem, self.learner, record=episodes, track=track)

    def run(self, episodes: int) -> None:
        """So many more episodes."""
        if episodes > self.training.remaining:
            raise ValueError("the learner's T is too small for so many slices")
        while episodes > 0:
            episodes -= self.training.advance(episodes)

    def learning(self) -> tuple[float, float]:
        """The shares of all states (of all steps), and of those met, whose policy moves in the next episode."""
        before = self.learner.policy
        self.run(1)
        moves = (self.learner.policy != before).any(axis=2)
        return float(moves.mean()), float(moves[self.learner.statistics.known].mean())

    def transitions(self) -> int:
        """How many different transitions have been observed."""
        successors = self.learner.statistics.successors
        return int((successors.dense > 0.0).sum() + successors.length.sum())

    def bytes(self) -> int:
        """What the learner's arrays take."""
        parts = (self.learner.statistics, self.learner.window, self.learner.state)
        return sum(_bytes(part) for part in parts)


def _bytes(part: object) -> int:
    if isinstance(part, np.ndarray):
        return part.nbytes
    return sum(map(_bytes, part)) if isinstance(part, tuple) else 0


def remember(problem: ss.Problem, learner: ss.Spot, episodes: int) -> None:
    """Let the learner look back on so many episodes of its first policy; large ones take minutes to learn from."""
    cmdp, H, m = problem.cmdp, problem.cmdp.H, problem.cmdp.m
    streams, block = ss.streams(0), 1000  # episodes at once, so that their noise stays small
    played = InsideEpisode(
        np.zeros(H + 1, np.int64),
        np.zeros(H, np.int64),
        np.zeros(H),
        np.zeros((H, m)),
        np.zeros((H, m)),
    )
    for begin in range(0, episodes, block):
        n = min(block, episodes - begin)
        noise, done = draw_noise(problem, streams, n), 0
        while done < n:
            learner.make_room()
            done = gather(
                cmdp.model, cmdp.model.alpha, as_laws(problem), noise, done,
                learner.state.pi, learner.statistics, learner.window, played,
            )  # fmt: skip
    learner.state.finished[0] = episodes
    learner._derive()


@numba.njit(error_model="numpy")
def gather(
    model: Model,
    alpha: Float,
    laws: Laws,
    noise: Noise,
    first: int,
    pi: Float,
    statistics: Statistics,
    window: Window,
    played: InsideEpisode,
) -> int:
    """Play and count from episode `first` of `noise` on; returns the one before which there was no room."""
    H = pi.shape[0]
    for n in range(first, noise.start.shape[0]):
        if not has_room(statistics, window):
            return n
        play_kernel(
            model, alpha, laws, noise, n, pi,
            played.states, played.pairs, played.rewards, played.constraints, played.thresholds,
        )  # fmt: skip
        statistics.starts[played.states[0]] += 1
        for h in range(H):
            s, after = played.states[h], played.states[h + 1]
            reward, constraints = played.rewards[h], played.constraints[h]
            add_visit(statistics, h, s, played.pairs[h], after, reward, constraints)
        add_to_window(window, played.pairs, played.thresholds)
    return len(noise.start)


# Two sides in turns


class Turns(NamedTuple):
    """What an episode takes, in seconds, and how many times more the other side takes."""

    ours: float
    theirs: float
    ratio: float


def in_turns(
    ours: Callable[[int], None], theirs: Callable[[int], None], rounds: int = ROUNDS
) -> Turns:
    """Both sides in turns; each is called with how often to do its work."""
    n, k = _fitting(ours), _fitting(theirs)
    times = [(_each(ours, n), _each(theirs, k)) for _ in range(rounds)]
    ratio = median(their / our for our, their in times)
    return Turns(median(our for our, _ in times), median(their for _, their in times), ratio)


def _each(work: Callable[[int], None], n: int) -> float:
    begin = time.process_time()
    work(n)
    return (time.process_time() - begin) / n


def _fitting(work: Callable[[int], None]) -> int:
    """How often the work is done in a slice."""
    n = 1
    while True:
        seconds = n * _each(work, n)
        if seconds > SLICE / 4:
            return max(1, int(n * SLICE / seconds))
        n *= 2


def in_rounds(trainings: Sequence[Training], rounds: int = ROUNDS) -> list[list[float]]:
    """Processor time of an episode in seconds, ``[rounds][trainings]``: all in turns."""
    slices = [(training.run, _fitting(training.run)) for training in trainings]
    return [[_each(run, n) for run, n in slices] for _ in range(rounds)]


def per_episode(training: Training) -> float:
    """Processor time of an episode in seconds, the least of several slices."""
    return min(seconds for (seconds,) in in_rounds([training], rounds=5))


# Beside a plain compiled loop, and NumPy


def published() -> ss.Problem | None:
    """The instance of a published study of primal-dual learners, where its file is at hand."""
    places = (up / "shared/data/uniform-pac/instance.npz" for up in Path(__file__).parents)
    path = next((place for place in places if place.exists()), None)
    if path is None:
        return None
    data = np.load(path)
    P = data["P"].astype(np.float64)
    P /= P.sum(axis=3, keepdims=True)
    r, u = data["r"].astype(float), data["u"].astype(float)[None]
    return ss.Problem(ss.CMDP(P, r, u, [float(data["const"])], start=int(data["mu"].argmax())))


def against_references() -> list[Row]:
    instance = published()
    kind = "random, dense" if instance is None else "a published instance, dense"
    if instance is None:
        instance = make("random", states=30, actions=3, horizon=10)
    small = make("random", states=3, actions=2, horizon=3)
    several = make("random", states=20, actions=5, horizon=10, constraints=2, successors=5)
    rows: list[Row] = []
    for problem, what in (
        (instance, f"S = 30, A = 3, H = 10, m = 1, {kind}"),
        (small, "S = 3, A = 2, H = 3, m = 1, random, dense"),
        (several, "S = 20, A = 5, H = 10, m = 2, random, 5 successors"),
    ):
        rows.extend(beside_references(problem, what, scale) for scale in (0.01, 1.0))
    return rows


def beside_references(problem: ss.Problem, what: str, bonus_scale: float) -> Row:
    """Both learn with the same noise, which must lead to the same numbers; then they are timed."""
    rho, first = ss.slater(problem.cmdp).rho, 2000
    apart, sides = 0.0, []
    for kind in (PlainSpot, TunedSpot, CompiledSpot):
        reference = kind(problem, episodes=T, rho=rho, bonus_scale=bonus_scale)
        training = Training(problem, bonus_scale=bonus_scale, track="every", rho=rho)
        reference.run(first)
        training.run(first)
        totals = training.training.tracker.totals[0]
        expected = np.r_[reference.regret, reference.violation]
        apart = max(apart, float(np.abs(totals - expected).max() / np.abs(expected).max()))
        sides.append(in_turns(training.run, reference.run))
    plain, tuned, turns = sides
    share, of_met = training.learning()
    return Row(
        "references",
        f"an episode, {what}, bonus scale {bonus_scale:g}; a plain compiled loop",
        MICRO * turns.ours,
        "µs",
        # the median of the ratios, which differs a little from the ratio of the medians
        versus=MICRO * turns.ours * turns.ratio,
        target=f"{TIMES:g} ×",
        reached=turns.ratio >= TIMES and apart <= AGREE,
        note=f"plain NumPy: {plain.ratio:.0f} ×, tuned: {tuned.ratio:.0f} ×; "
        f"{share:.0%} of the states learn ({of_met:.0%} of those met); "
        f"regret and violation differ by {apart:.0e}",
    )


# Large and sparse


def large() -> ss.Problem:
    """S = 716, A = 25, H = 20, 85 successors: the size of a sepsis model built from hospital data."""
    return make("random", states=716, actions=25, horizon=20, successors=85)


def against_copying() -> list[Row]:
    """A step must read and write `TOUCHED` arrays of the policy's size: one pass of copying them is a yardstick.

    A softmax needs one pass of exp, too, which stands in the notes: processors differ in how fast exp is by more than
    in anything else a step does.
    """
    problem = large()
    cmdp = problem.cmdp
    entries = cmdp.H * cmdp.S * cmdp.A
    x = -np.random.default_rng(0).random(entries)
    y = np.empty(entries)

    def passes(n: int) -> None:
        for _ in range(n):
            np.exp(x, out=y)

    read, written = (np.random.default_rng(k).random((TOUCHED, entries)) for k in (1, 2))

    def copies(n: int) -> None:
        for _ in range(n):
            np.copyto(written, read)

    rows = []
    for bonus_scale in (1e-4, 1.0):
        training = Training(
            problem,
            bonus_scale=bonus_scale,
            track="grid",
            rho=2.0,
            episodes=10**5,
            after=20_000,
        )
        turns = in_turns(training.run, copies)
        exponentials = in_turns(training.run, passes)
        share, of_met = training.learning()
        rows.append(
            Row(
                "copying",
                "an episode after 20,000, S = 716, A = 25, H = 20, m = 1, 85 successors, "
                f'bonus scale {bonus_scale:g}, `track="grid"`; one pass of copying the {TOUCHED} arrays of '
                f"{entries:,} entries that a step touches",
                1e3 * turns.ours,
                "ms",
                versus=1e3 * turns.ours * turns.ratio,
                note=f"{1 / turns.ratio:.2f} passes; {1 / exponentials.ratio:.2f} passes of `np.exp` over the policy, "
                f"{1e3 * exponentials.theirs:.2g} ms each; {share:.0%} of the states learn ({of_met:.0%} of those "
                f"met), {training.transitions() / 1e6:.2g} million transitions observed",
            )
        )
    return rows


BENCHMARKS = (
    Benchmark("references", against_references),
    Benchmark("copying", against_copying),
)
