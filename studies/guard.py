"""Does the guard keep its budget, and what does it cost? Written before the runs.

**Coverage.** Four problems: `bandit`, `machine`, `random` (3 states, 2 actions, 3 steps, two limits), the patients of
`Clinic` under five protocols of constant doses, drawn from pools of treated patients, so that the exact mean of each
protocol is known while nothing is Markov: patients have hidden types, some die, and a death hides the tolerance. Four
learners: `spot`, `spot-epochs`, `opt-cmdp-bonus`, and a hostile one that always plays the policy with the largest
violation of the first limit. The baseline lies exactly on the limit: it earns no credit, so that nothing but the guard
stands between noise and the budget. The budget is what `BUDGET` episodes can cost, delta is 0.2, a run has `EPISODES`
episodes, seeds are 0 to 999. A run fails if the exact violation exceeds the budget of any constraint after any episode.
The claim is that at most a share delta of the runs fails: the upper end of the two-sided 95 % Clopper-Pearson interval
is to be at most delta. To show that the study can fail there is a fifth problem, `cliff`, whose worst action costs as
much as an episode can: the hostile learner on it, with the guard and with one that forgets what one more episode can
cost (100 seeds each).

**Cost.** `dosing`, B = 100 doses, the safest policy as baseline, `spot-epochs` with its defaults, delta = 0.05, 10,000
episodes, seeds 0 to 9: the mean of what is played in the last 1,000 episodes (94 % of the optimum asked), the share of
episodes that the baseline plays (at most 5 %), and the worst violation at any time, with and without the guard. Added
after the first runs, to see why they differ: which share of the last 1,000 explores, and what the last trial that is
over earned, which compares like with like.

`python -m studies.guard` does both, and writes each row of the first table into `results/guard.md` once it is
measured. With the name of a problem, and of learners, it does rows of the first alone; with `cost` the second.
"""

from __future__ import annotations

import functools
import itertools
import re
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import safespot as ss
from safespot.arrays import Bool, Float, Policy
from safespot.gym.clinic import Clinic
from safespot.learners.history import table
from safespot.problems.dosing import BLOCKS, DOSES

from .record import RESULTS, write_between

PAGE = RESULTS / "guard.md"
DELTA, SEEDS, EPISODES, BUDGET = 0.2, 1_000, 500, 5.0
PATIENTS = 2_000  # in the pool of each protocol
LEARNERS = ("hostile", "spot", "spot-epochs", "opt-cmdp-bonus")
HEAD = (
    "| problem | learner | runs over budget | 95 % interval of the share | worst, of the budget | learner played |",
    "|---|---|---:|---|---:|---:|",
)


@dataclass(frozen=True)
class World:
    """A problem whose exact violations are known for every policy."""

    interface: dict[str, Any]
    most: Float  # [m]: what one episode can cost, in the user's units
    baseline: Policy
    worst: Policy
    violations: Callable[[ss.Guard, int], Float]  # a guard and a seed -> [episodes, m], cumulative


def worlds() -> dict[str, Callable[[], World]]:
    """The problems of the study."""
    return {
        "bandit": lambda: of_problem(ss.problems.make("bandit")),
        "machine": lambda: of_problem(ss.problems.make("machine")),
        "random": lambda: of_problem(
            ss.problems.make("random", states=3, actions=2, horizon=3, constraints=2, seed=0)
        ),
        "Clinic": clinic,
        "cliff": lambda: of_problem(ss.Problem(cliff())),
    }


def cliff() -> ss.CMDP:
    """One step, two actions: one keeps the limit exactly, the other breaks it by all that a step can."""
    return ss.CMDP([[[1.0], [1.0]]], [[0.5, 1.0]], [[[1.0, 0.0]]], [1.0], horizon=1)


def of_problem(problem: ss.Problem) -> World:
    """A problem with its truth."""
    cmdp = problem.cmdp
    worst = most_violating(cmdp)
    safest = ss.slater(cmdp).policy

    def violations(guard: ss.Guard, seed: int) -> Float:
        return ss.learn(problem, guard, EPISODES, seed=seed, record="all").violations

    def room(policy: Policy) -> float:
        found = np.subtract(ss.evaluate(cmdp, policy).constraints, cmdp.limits)
        return float((found * np.sign(cmdp.units.constraints.scale)).min())

    return World(
        interface=problem.interface,
        most=cmdp.H * np.abs(cmdp.units.constraints.scale),
        baseline=on_the_limit(safest, worst, room),
        worst=worst,
        violations=violations,
    )


def most_violating(cmdp: ss.CMDP) -> Policy:
    """Of the deterministic policies that are the same at every step, the one with the largest violation of limit 0."""
    rules = itertools.product(np.eye(cmdp.A), repeat=cmdp.S)
    policies = [np.repeat(np.array(rule)[None], cmdp.H, axis=0) for rule in rules]
    sign = np.sign(cmdp.units.constraints.scale[0])
    kept = [float(sign * ss.evaluate(cmdp, policy).constraints[0]) for policy in policies]
    return policies[int(np.argmin(kept))]


def on_the_limit(safe: Policy, worst: Policy, room: Callable[[Policy], float]) -> Policy:
    """A blend of the two that keeps every limit with no room to spare, by bisection; at least as safe as `safe`."""

    def blend(part: float) -> Policy:
        return np.array((1.0 - part) * safe + part * worst)

    low, high = 0.0, 1.0
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if room(blend(middle)) > 1e-9 else (low, middle)
    return blend(low)


@functools.cache
def pools() -> tuple[Float, Float, Float]:
    """Health, doses and the tolerance's hints of treated patients ``[protocols, patients]``; NaN: died, no hint.

    A patient who dies costs a full dose in every block that is left.
    """
    ward, n = Clinic(), (len(DOSES), PATIENTS)
    health, doses, hints = np.zeros(n), np.zeros(n), np.zeros(n)
    for a, k in np.ndindex(n):
        ward.reset(seed=a * PATIENTS + k)
        for h in range(BLOCKS):
            _, reward, died, _, info = ward.step(a)
            health[a, k] += reward
            doses[a, k] += info["cost"]
            hints[a, k] += info["threshold"]
            if died:
                doses[a, k] += BLOCKS - 1 - h
                hints[a, k] = np.nan
                break
    return health, doses, hints


def clinic() -> World:
    """Patients under protocols of constant doses: one step, one action for each protocol."""
    health, doses, hints = pools()
    mean, limit = doses.mean(axis=1), float(np.nanmean(hints))
    interface = {
        "states": 1, "actions": len(DOSES), "horizon": 1, "constraints": 1, "senses": "<=",
        "ranges": {"reward": (0.0, float(BLOCKS)), "constraints": [(0.0, float(BLOCKS))]},
    }  # fmt: skip

    def violations(guard: ss.Guard, seed: int) -> Float:
        rng, found = np.random.default_rng(seed), np.zeros((EPISODES, 1))
        for t in range(EPISODES):
            pi = guard.state.pi[0, 0]
            found[t] = pi @ mean - limit
            a = guard.act(0, 0, rng)
            k = int(rng.integers(PATIENTS))
            seen: Any = [0, 0], [a], [health[a, k]], [[doses[a, k]]], [[hints[a, k]]]
            guard.observe(ss.Episode(*seen))
        return found.cumsum(axis=0)

    safe, worst = (np.eye(len(DOSES))[[[k]]] for k in (mean.argmin(), mean.argmax()))
    return World(
        interface=interface,
        most=np.array([float(BLOCKS)]),
        baseline=on_the_limit(safe, worst, lambda policy: float(limit - policy[0, 0] @ mean)),
        worst=worst,
        violations=violations,
    )


def make_guard(world: World, learner: str) -> ss.Guard:
    """The learner of that name under a guard."""
    small = {"bonus_scale": 0.01, "threshold_scale": 0.1}
    taken: dict[str, dict[str, Any]] = {
        "hostile": {"policy": world.worst},
        "spot": {"rho": 2.0, "policy_step": 0.1, "dual_step": 0.1, **small},
        "opt-cmdp-bonus": small,
    }
    options = taken.get(learner, {})
    name = "fixed" if learner == "hostile" else learner
    made = ss.learners.make(name, world.interface, episodes=EPISODES, **options)
    return ss.Guard(made, world.baseline, BUDGET * world.most, delta=DELTA)


def failures(
    world: World, learner: str, seeds: range, *, forgets: bool = False
) -> tuple[int, float, float]:
    """How many runs exceed a budget at any time; the worst violation in parts of the budget; the learner's share."""
    failed, worst, shares = 0, -np.inf, 0.0
    for seed in seeds:
        guard = make_guard(world, learner)
        if forgets:  # what one more episode can cost
            most = world.most / np.abs(guard.interface.units.constraints.scale)
            guard._terms = guard._terms._replace(budget=guard._terms.budget + most)
            guard._derive()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ss.errors.UnsafeBaseline)
            part = float((world.violations(guard, seed) / guard.budget).max())
        failed += part > 1.0 + 1e-6  # rounding: 500 episodes of a baseline that an LP found
        worst, shares = max(worst, part), shares + guard.share / len(seeds)
    return failed, worst, shares


def clopper_pearson(k: int, n: int) -> tuple[float, float]:
    """The two-sided 95 % interval of a share of which k of n were seen."""
    from scipy.stats import beta

    low = 0.0 if k == 0 else float(beta.ppf(0.025, k, n - k + 1))
    return low, 1.0 if k == n else float(beta.ppf(0.975, k + 1, n - k))


def coverage(name: str, learners: tuple[str, ...] = LEARNERS, seeds: int = SEEDS) -> None:
    """Rows of the first table, each written when it is measured."""
    world = worlds()[name]()
    rows = [(learner, seeds, False) for learner in learners]
    if name == "cliff":
        rows = [("hostile", 100, forgets) for forgets in (False, True)]
    for row in rows:
        found = covered(name, world, *row)
        print(found, flush=True)
        keep(found)


def covered(name: str, world: World, learner: str, seeds: int, forgets: bool) -> str:
    """A row of it."""
    failed, worst, share = failures(world, learner, range(seeds), forgets=forgets)
    low, high = clopper_pearson(failed, seeds)
    called = learner if learner == "hostile" else f"`{learner}`"
    called += ", guard without $c$" if forgets else ""
    return (
        f"| `{name}` | {called} | {failed} of {seeds:,} | {100 * low:.1f} to {100 * high:.1f} % "
        f"| {100 * worst:.0f} % | {100 * share:.0f} % |"
    )


def keep(row: str) -> None:
    """Put a row into the page's first table, in place of the one of the same problem and learner."""
    found = re.search("<!-- guard-coverage:begin -->\n(.*?)\n<!--", PAGE.read_text(), re.DOTALL)
    rows = {_named(each): each for each in (found[1].splitlines()[2:] if found else ())}
    rows[_named(row)] = row
    problems = list(worlds())

    def place(named: tuple[str, str]) -> tuple[int, int, str]:
        problem, learner = (each.strip("`") for each in named)
        return problems.index(problem), LEARNERS.index(learner.split(",")[0]), learner

    write_between(
        PAGE, "guard-coverage", "\n".join([*HEAD, *(rows[k] for k in sorted(rows, key=place))])
    )


def _named(row: str) -> tuple[str, str]:
    """The problem and the learner of a row."""
    _, problem, learner, *_ = (cell.strip() for cell in row.split("|"))
    return problem, learner


def cost(seeds: range = range(10), episodes: int = 10_000, budget: float = 100.0) -> str:
    """The second table; each pair of figures is with the guard / without."""
    problem = ss.problems.make("dosing")
    baseline, optimum = ss.slater(problem.cmdp).policy, ss.solve(problem.cmdp).value
    lines = [
        f"`dosing`, B = {budget:g} doses, the safest policy as baseline, `spot-epochs` with its defaults, "
        f"{episodes:,} patients; with the guard / without:",
        "",
        "| seed | last 1,000 played, of the optimum | of them exploring | the last trial, of the optimum "
        "| worst violation at any time, doses | baseline played |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for seed in seeds:
        alone, inside = (ss.SpotEpochs(**problem.interface) for _ in range(2))
        guard = ss.Guard(inside, baseline, budget)
        found = []
        for player, learner in ((guard, inside), (alone, alone)):
            run = ss.learn(problem, player, episodes, seed=seed, record="all")
            values = 100.0 * run.values / optimum
            explored, tried = last_parts(learner, episodes)
            found.append(
                (
                    f"{values[-1_000:].mean():.1f}", f"{100 * explored[-1_000:].mean():.0f}",
                    f"{values[tried].mean():.1f}", f"{max(0.0, float(run.violation.max())):.0f}",
                )
            )  # fmt: skip
        late, exploring, trial, worst = (" / ".join(pair) for pair in zip(*found, strict=True))
        lines.append(
            f"| {seed} | {late} % | {exploring} % | {trial} % | {worst} | {100 * (1 - guard.share):.1f} % |"
        )
        print(lines[-1], flush=True)
    return "\n".join(lines)


def last_parts(learner: ss.SpotEpochs, episodes: int) -> tuple[Bool, slice]:
    """Which episodes explored ``[episodes]``, and those of the last trial that is over."""
    parts = table(learner.history, episodes)
    explored = np.zeros(episodes, np.bool_)
    for part in parts:
        explored[part["first"] - 1 : part["last"]] = part["kind"] == "explore"
    *_, tried = (part for part in parts[:-1] if part["kind"] == "try")
    return explored, slice(tried["first"] - 1, tried["last"])


def main() -> None:
    """Both tables, or rows of the first, or the second."""
    named = sys.argv[1:]
    for name in worlds() if not named else [each for each in named[:1] if each != "cost"]:
        coverage(name, tuple(named[1:]) or LEARNERS)
    if not named or named == ["cost"]:
        write_between(PAGE, "guard-cost", cost())


if __name__ == "__main__":
    main()
