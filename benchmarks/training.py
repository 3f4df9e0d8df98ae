"""Training: time per episode beside plain NumPy, beside one pass of exp, and as problems grow.

Machines are noisy, so both sides of a ratio take turns in short slices, and the ratio is the median over the turns.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numba
import numpy as np
from scipy import sparse

import safespot as ss
from safespot.arrays import Float
from safespot.cmdp import Model
from safespot.estimators import Statistics, Window, add_to_window, add_visit, has_room, statistics
from safespot.learners.interface import Inside
from safespot.problems import make
from safespot.simulation import Laws, Noise, as_laws, draw_noise, play_kernel
from safespot.training import _Loop

from .numpy_twin import NumpySpot
from .record import Benchmark, Row

T = 10**6  # the episodes that learners are told of; radii and step sizes follow from it
LITTLE = 1e-6  # a bonus scale with which every state that was met is below its cap: the most work there is
ROUNDS = 11
SLICE = 0.05  # seconds of a side's turn, about
AGREE = 1e-9  # how far regret and violation of both sides may differ, relatively
MICRO = 1e6

ROOT = Path(__file__).parents[1]
RLBERRY = "rlberry-scool==0.7.3"


# Our side


class Training:
    """A learner at work, in slices; `learn` would begin each of them with the luck of all episodes before."""

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
            self.learner.statistics = statistics(f.H, f.S, f.A, f.m, dense=False)
        if after > 0:
            remember(problem, self.learner, after)
        # Recorded: the first episode only. What a recorded one costs is in the section of the oracle.
        self.loop = _Loop(problem, self.learner, 0, np.array([after + 1]), track)

    def run(self, episodes: int) -> None:
        """So many more episodes."""
        self.loop.run(episodes, False)

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
    streams, block = ss.streams(0), 1000  # episodes at once, so that their luck stays small
    played = Inside(
        np.zeros(H + 1, np.int64),
        np.zeros(H, np.int64),
        np.zeros(H),
        np.zeros((H, m)),
        np.zeros((H, m)),
    )
    for begin in range(0, episodes, block):
        n = min(block, episodes - begin)
        luck, done = draw_noise(problem, streams, n), 0
        while done < n:
            learner.make_room()
            done = gather(
                cmdp.model, cmdp.model.alpha, as_laws(problem.signals), luck, done,
                learner.state.pi, learner.statistics, learner.window, played,
            )  # fmt: skip
    learner.state.finished[0] = episodes
    learner._derive()


@numba.njit(error_model="numpy")
def gather(
    model: Model,
    alpha: Float,
    laws: Laws,
    luck: Noise,
    first: int,
    pi: Float,
    statistics: Statistics,
    window: Window,
    played: Inside,
) -> int:
    """Play and count from episode `first` of `luck` on; returns the one before which there was no room."""
    H, _, A = pi.shape
    actions = np.zeros(H, np.int64)
    for n in range(first, luck.start.shape[0]):
        if not has_room(statistics, window):
            return n
        play_kernel(
            model, alpha, laws, luck, n, pi,
            played.states, actions, played.rewards, played.constraints, played.thresholds,
        )  # fmt: skip
        statistics.starts[played.states[0]] += 1
        for h in range(H):
            s, after = played.states[h], played.states[h + 1]
            played.pairs[h] = s * A + actions[h]
            reward, constraints = played.rewards[h], played.constraints[h]
            add_visit(statistics, h, s, played.pairs[h], after, reward, constraints)
        add_to_window(window, played.pairs, played.thresholds)
    return len(luck.start)


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


def per_episode(training: Training, rounds: int = 5) -> float:
    """Processor time of an episode in seconds, the least of several slices."""
    n = _fitting(training.run)
    return min(_each(training.run, n) for _ in range(rounds))


# Beside NumPy


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


def against_numpy() -> list[Row]:
    instance = published()
    kind = "random, dense" if instance is None else "a published instance, dense"
    if instance is None:
        instance = make("random", states=30, actions=3, horizon=10)
    small = make("random", states=3, actions=2, horizon=3)
    several = make("random", states=20, actions=5, horizon=10, constraints=2, successors=5)
    rows: list[Row] = []
    for problem, what, times in (
        (instance, f"S = 30, A = 3, H = 10, m = 1, {kind}", 32),
        (small, "S = 3, A = 2, H = 3, m = 1, random, dense", 500),
        (several, "S = 20, A = 5, H = 10, m = 2, random, 5 successors", 60),
    ):
        rows.extend(beside_twin(problem, what, scale, times) for scale in (0.01, 1.0))
    return rows


def beside_twin(problem: ss.Problem, what: str, bonus_scale: float, times: int) -> Row:
    """Both learn with the same luck, which must lead to the same numbers; then they are timed."""
    rho, first = ss.slater(problem.cmdp).rho, 2000
    twin = NumpySpot(problem, episodes=T, rho=rho, bonus_scale=bonus_scale)
    twin.run(first)
    training = Training(problem, bonus_scale=bonus_scale, track="every", rho=rho)
    training.run(first)
    totals = training.loop.tracker.totals[0]
    expected = np.r_[twin.regret, twin.violation]
    apart = float(np.abs(totals - expected).max() / np.abs(expected).max())
    turns = in_turns(training.run, twin.run)
    share, of_met = training.learning()
    return Row(
        "against NumPy",
        f"an episode, {what}, bonus scale {bonus_scale:g}; plain NumPy",
        MICRO * turns.ours,
        "µs",
        # the median of the ratios, which differs a little from the ratio of the medians
        versus=MICRO * turns.ours * turns.ratio,
        target=f"{times} ×",
        reached=turns.ratio >= times and apart <= AGREE,
        note=f"{share:.0%} of the states learn ({of_met:.0%} of those met); "
        f"regret and violation differ by {apart:.0e}",
    )


# Large and sparse


def large() -> ss.Problem:
    """S = 716, A = 25, H = 20, 85 successors: the size of a sepsis model built from hospital data."""
    return make("random", states=716, actions=25, horizon=20, successors=85)


def against_exp() -> list[Row]:
    """One pass of exp over the policy's entries is the yardstick: a softmax needs one at least."""
    problem = large()
    cmdp = problem.cmdp
    entries = cmdp.H * cmdp.S * cmdp.A
    x = -np.random.default_rng(0).random(entries)
    y = np.empty(entries)

    def passes(n: int) -> None:
        for _ in range(n):
            np.exp(x, out=y)

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
        turns = in_turns(training.run, passes, rounds=21)
        share, of_met = training.learning()
        rows.append(
            Row(
                "against exp",
                "an episode after 20,000, S = 716, A = 25, H = 20, m = 1, 85 successors, "
                f'bonus scale {bonus_scale:g}, `track="grid"`; '
                f"one pass of `np.exp` over the {entries:,} entries of the policy",
                1e3 * turns.ours,
                "ms",
                versus=1e3 * turns.ours * turns.ratio,
                target="≤ 2 passes",
                reached=turns.ratio >= 0.5,
                note=f"{1 / turns.ratio:.2f} passes; {share:.0%} of the states learn "
                f"({of_met:.0%} of those met), {training.transitions() / 1e6:.2g} million "
                "transitions observed",
            )
        )
    return rows


PEAK = """
import re
from pathlib import Path
from benchmarks.training import Training, large
def peak():  # in kB; getrusage would begin with that of the process that started this one
    return re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]
problem = large()
before = peak()
training = Training(
    problem, bonus_scale=1e-4, track="grid", rho=2.0, episodes=10**5, after=10**5 - 20
)
training.run(20)
print(before, peak(), training.bytes())
"""


def memory() -> list[Row]:
    before, peak, held = map(float, python(PEAK).split())
    return [
        Row(
            "memory",
            "peak memory of a process with 100,000 such episodes",
            peak * 1024 / 1e6,
            "MB",
            target="< 500 MB",
            reached=peak * 1024 < 500e6,
            note=f"{before * 1024 / 1e6:.0f} MB before the first episode; "
            f"the learner's arrays {held / 1e6:.0f} MB",
        )
    ]


# Growth


class Size(NamedTuple):
    """A random problem to grow."""

    states: int = 40
    actions: int = 4
    horizon: int = 10
    constraints: int = 1
    successors: int = 5


SIGNS = {"states": "S", "actions": "A", "horizon": "H", "constraints": "m"}
SWEEPS = {  # of problems whose transitions are counted in a block, and in lists (the layout of large ones)
    False: {
        "states": (20, 40, 80, 160),
        "actions": (2, 4, 8, 16),
        "horizon": (10, 20, 40, 80),
        "constraints": (1, 2, 4, 8),
        "successors": (2, 5, 10, 20),
    },
    True: {
        "states": (40, 80, 160, 320),
        "actions": (2, 4, 8, 16),
        "horizon": (10, 20, 40, 80),
        "constraints": (1, 2, 4, 8),
        "successors": (5, 10, 20, 40),
    },
}


def growth() -> list[Row]:
    rows = []
    for lists, sweeps in SWEEPS.items():
        base = Size(states=80) if lists else Size()
        for name, sizes in sweeps.items():
            times = [seconds(base._replace(**{name: size}), lists) for size in sizes]
            at = ", ".join(
                f"{SIGNS.get(other, other)} = {value}"
                for other, value in base._asdict().items()
                if other != name
            )
            rows.append(
                exponent(
                    "growth",
                    f"{SIGNS.get(name, name)} from {sizes[0]} to {sizes[-1]} "
                    f"(counts in {'lists' if lists else 'a block'}; {at})",
                    sizes,
                    times,
                    limit=2.0 if name == "states" and not lists else 1.0,
                )
            )
    return rows


def seconds(size: Size, lists: bool) -> float:
    """Of an episode, when each pair has been visited several times."""
    training = Training(
        make("random", **size._asdict()), bonus_scale=LITTLE, track="grid", rho=2.0, lists=lists
    )
    training.run(8 * size.states * size.actions)
    return per_episode(training)


def exponent(
    name: str, what: str, sizes: Sequence[float], times: Sequence[float], limit: float
) -> Row:
    """The slope of log time over log size, by least squares."""
    slope = float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
    return Row(
        name,
        f"growth of an episode with {what}",
        slope,
        "(exponent)",
        target=f"≤ {limit:g}",
        reached=slope <= limit + 0.1,
        note=", ".join(f"{MICRO * t:.3g}" for t in times) + " µs",
    )


def observed() -> list[Row]:
    """One learner, timed as it observes more and more transitions."""
    problem = make("random", states=100, actions=4, horizon=10, successors=50)
    training = Training(problem, bonus_scale=LITTLE, track="grid", rho=2.0, lists=True)
    sizes, times = [], []
    for episodes in (2_000, 4_000, 8_000, 16_000):
        training.run(episodes - training.learner.episode + 1)
        sizes.append(training.transitions())
        times.append(per_episode(training))
    counts = ", ".join(f"{size / 1e3:.0f}" for size in sizes)
    return [
        exponent(
            "observed",
            f"the transitions observed: {counts} thousand (S = 100, A = 4, H = 10, 50 successors)",
            sizes,
            times,
            limit=1.0,
        )
    ]


def unvisited() -> list[Row]:
    """Fifty states can be reached, and more and more cannot."""
    sizes = (100, 300, 1000, 3000)
    times = []
    for states in sizes:
        training = Training(
            with_unreachable(states), bonus_scale=LITTLE, track="grid", rho=2.0, lists=True
        )
        training.run(4_000)
        times.append(per_episode(training, rounds=11))
    return [
        exponent(
            "unvisited",
            "S from 100 to 3000, where 50 states can be reached (A = 4, H = 10, 5 successors)",
            sizes,
            times,
            limit=0.0,
        )
    ]


def with_unreachable(states: int) -> ss.Problem:
    """A random CMDP of 50 states, and others that lead only to themselves."""
    core = make("random", states=50, actions=4, horizon=10, successors=5).cmdp
    rest, A = states - core.S, core.A
    block = sparse.csr_array(core.transitions[0].reshape(core.S * A, core.S))
    alone = sparse.csr_array(np.repeat(np.eye(rest), A, axis=0))
    return ss.Problem(
        ss.CMDP(
            sparse.csr_array(sparse.block_diag((block, alone))),
            np.r_[core.rewards[0], np.full((rest, A), 0.5)],
            np.concatenate([core.constraints[:, 0], np.full((core.m, rest, A), 0.5)], axis=1),
            core.limits,
            horizon=core.H,
        )
    )


# Processes


def python(code: str) -> str:
    """What a fresh process prints."""
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, cwd=ROOT, env=environment(), check=True, capture_output=True, text=True
    ).stdout


def environment() -> dict[str, str]:
    """Variables with which a fresh process finds the package that is measured here."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


SEED = """
import sys, time
import safespot as ss
problem = ss.problems.make("random", states=30, actions=3, horizon=10)
learner = ss.Spot(**problem.interface, episodes=10**6, rho=2.0, bonus_scale=0.01)
ss.learn(problem, learner, 2_000, seed=int(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
begin = time.perf_counter()
ss.learn(problem, learner, 50_000, seed=int(sys.argv[1]))
print(time.perf_counter() - begin)
"""


def two_seeds() -> list[Row]:
    """Wall-clock time: another program that wants a core spoils it, so the best of several attempts counts."""
    attempts = []
    for _ in range(3):
        load = os.getloadavg()[0]
        (alone,) = together(1)
        slower = max(together(2))
        attempts.append((2.0 * alone / slower, alone, slower, load))
        if attempts[-1][0] >= 1.8:
            break
    times, alone, slower, load = max(attempts)
    return [
        Row(
            "two seeds",
            "50,000 episodes with each of two seeds, S = 30, A = 3, H = 10, two processes; "
            "one after the other",
            slower,
            "s",
            versus=2.0 * alone,
            target="1.8 ×",
            reached=times >= 1.8,
            note=f"wall-clock time, best of {len(attempts)}; load average {load:.1f} before",
        )
    ]


def together(processes: int) -> list[float]:
    """Wall-clock seconds of each process, begun at the same time."""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", SEED, str(seed)],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in range(processes)
    ]
    for process in running:
        assert process.stdout is not None
        process.stdout.readline()
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return [float(process.communicate()[0]) for process in running]


IMPORT = """
import time
begin = time.perf_counter()
import safespot
print(time.perf_counter() - begin)
"""
FIRST_EPISODE = """
import safespot as ss
problem = ss.problems.make("random")
learner = ss.Spot(**problem.interface, episodes=1000, slack=0.5)
ss.learn(problem, learner, 1)
"""


def startup() -> list[Row]:
    """Wall-clock time of fresh processes; the first of each only fills the caches."""
    imports = [float(python(IMPORT)) for _ in range(6)][1:]
    starts = []
    for _ in range(6):
        begin = time.perf_counter()
        python(FIRST_EPISODE)
        starts.append(time.perf_counter() - begin)
    return [
        Row(
            "startup",
            what,
            measured,
            "s",
            target=f"< {limit} s",
            reached=measured < limit,
            note="wall-clock time, median of 5",
        )
        for what, measured, limit in (
            ("`import safespot`", median(imports), 0.3),
            (
                "a process from its start to its end: import, make a problem, learn one episode "
                "(kernels cached)",
                median(starts[1:]),
                1.5,
            ),
        )
    ]


# Beside UCBVI

UCBVI = """
import sys, time
import numpy as np
import rlberry
from rlberry_scool.agents import UCBVIAgent
from rlberry.envs.finite_mdp import FiniteMDP
rlberry.logger.setLevel("ERROR")
data = np.load(sys.argv[1])
agent = UCBVIAgent(
    FiniteMDP(data["R"], data["P"], 0), horizon=int(data["H"]), stage_dependent=True
)
agent.fit(100)
times = []
for _ in range(5):
    begin = time.process_time()
    agent.fit(100)
    times.append((time.process_time() - begin) / 100)
print(sorted(times)[2])
"""


def against_ucbvi() -> list[Row]:
    """UCBVI learns without constraints; ours learns the same rewards under a limit that always holds."""
    cmdp = make("random", states=30, actions=3, horizon=10).cmdp
    P = exact_rows(cmdp.transitions[0])
    free = ss.Problem(ss.CMDP(P, cmdp.rewards[0], cmdp.constraints[:, 0], [0.0], horizon=cmdp.H))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "mdp.npz"
        np.savez(file, P=P, R=cmdp.rewards[0], H=cmdp.H)
        try:
            command = [rlberry(Path(folder) / "venv"), "-c", UCBVI, str(file)]
            printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        except (OSError, subprocess.CalledProcessError) as failure:
            reason = getattr(failure, "stderr", None) or str(failure)
            print(f"  left out, {RLBERRY} does not run: {reason}", file=sys.stderr)
            return []
    theirs = float(printed.splitlines()[-1])
    training = Training(free, bonus_scale=0.01, track="every", rho=1.0)
    training.run(2_000)
    ours = per_episode(training)
    return [
        Row(
            "against UCBVI",
            f"an episode, S = 30, A = 3, H = 10, no limit, bonus scale 0.01; UCBVI of {RLBERRY}, "
            "a model per step as ours",
            MICRO * ours,
            "µs",
            versus=MICRO * theirs,
            note="ours also learns a constraint and a threshold, and evaluates every policy exactly; "
            "the backward induction of rlberry is not compiled",
        )
    ]


def exact_rows(P: Float) -> Float:
    """Rows rounded to multiples of 2^-30, so that they sum to one to the last bit, as rlberry demands."""
    whole = np.round(P * 2.0**30)
    whole[..., -1] += 2.0**30 - whole.sum(axis=-1)
    rounded: Float = whole * 2.0**-30
    return rounded


def rlberry(folder: Path) -> str:
    """The Python of an environment that has it: the one named by RLBERRY_PYTHON, or a new one."""
    if "RLBERRY_PYTHON" in os.environ:
        return os.environ["RLBERRY_PYTHON"]
    interpreter = str(folder / "bin" / "python")
    for command in (
        [sys.executable, "-m", "venv", str(folder)],
        [interpreter, "-m", "pip", "install", "--quiet", RLBERRY],
    ):
        subprocess.run(command, check=True, capture_output=True, text=True)
    return interpreter


BENCHMARKS = (
    Benchmark("against NumPy", against_numpy),
    Benchmark("against exp", against_exp),
    Benchmark("growth", growth),
    Benchmark("observed", observed),
    Benchmark("unvisited", unvisited),
    Benchmark("two seeds", two_seeds),
    Benchmark("startup", startup),
    Benchmark("memory", memory),
    Benchmark("against UCBVI", against_ucbvi, full=True),
)
