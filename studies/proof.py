"""How long to a proof: episodes and seconds until a learner is safe, good, and proven to be.

    python -m studies.proof [--seeds 3] [--only PROBLEM ...]     rewrites the table of results/performance.md

Protocol, fixed before the runs:

- `PROBLEMS`, each with limits that nobody knows, `EPISODES` episodes, seeds from 200 on, the median over seeds.
- *kept*: the episode from which on every policy in play keeps every limit (by the truth).
- *good*: the episode from which on the policy to deploy (`proposal` of `SpotEpochs`, for others the policy in play) has
  at least 95 % of the optimum.
- *proven*: the first episode after which something to deploy is proven safe without the truth, with confidence 0.95: a
  certificate of `SpotEpochs`, for others what `certify` would have said of the run when it was first asked for.
- Seconds are that many episodes at the run's mean processor time of one, plans included and compiling not. They
  plan more often early on, so that the first episodes took longer than that.

A dash is what did not happen within the episodes played.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any, NamedTuple

import numpy as np

import safespot as ss
from safespot.learners.learner import Learner
from safespot.learners.spot_epochs import SpotEpochs
from safespot.training.learn import Training
from safespot.training.metering import EpisodeSums

from .epochs import others
from .record import RESULTS, machine, where, write_between

FIRST_SEED, EPISODES = 200, 20_000
GOOD = 0.95

PROBLEMS: dict[str, dict[str, Any]] = {
    "dosing": {}, "inventory": {}, "machine": {}, "queue": {}, "random": {}, "random, m = 2": {"constraints": 2},
    "river-swim": {},
}  # fmt: skip


class Moments(NamedTuple):
    """The episode of each moment, NaN for never, and seconds an episode."""

    kept: float
    good: float
    proven: float
    seconds: float


def moments(problem: ss.Problem, learner: Learner, seed: int) -> Moments:
    """One run, by the truth."""
    cmdp = problem.cmdp
    training = Training(problem, learner, EPISODES, seed, "all", keep_sums=True)
    proposals: list[tuple[int, float]] = []  # after how many episodes, and their value
    began = time.process_time()
    spent = 0.0
    while training.remaining:
        training.advance()
        if isinstance(learner, SpotEpochs):
            spent += time.process_time() - began
            proposals.append((learner.episode - 1, ss.evaluate(cmdp, learner.proposal).value))
            began = time.process_time()
    spent += time.process_time() - began
    run = training.result()
    values = run.values
    if proposals:
        ends, found = np.array(proposals).T
        values = found[np.searchsorted(ends, run.episodes).clip(0, len(found) - 1)]
    toward = np.where(np.array(cmdp.senses) == "<=", -1.0, 1.0)
    room = (toward * (run.constraint_values - cmdp.limits)).min(axis=1)
    proven: float | None
    if isinstance(learner, SpotEpochs):
        proven = learner.certificates[0].episode if learner.certificates else None
    else:
        proven = first_proof(run)
    return Moments(
        kept=_for_good(room >= -1e-9 * cmdp.H),
        good=_for_good(run.optimum - values <= (1.0 - GOOD) * abs(run.optimum)),
        proven=np.nan if proven is None else float(proven),
        seconds=spent / EPISODES,
    )


def first_proof(run: ss.Run) -> int | None:
    """Return after how many episodes the run would first have been certified; None: not yet.

    It is looked for at counts that grow by one part in 32.
    """
    assert run.sums is not None
    n = 1
    while n <= run.played:
        sums = EpisodeSums(run.sums.totals[:n], run.sums.moved[: n + 1])
        if ss.certify(dataclasses.replace(run, sums=sums, played=n)).safe.all():
            return run.first + n - 1
        n += max(1, n // 32)
    return None


def _for_good(holds: Any) -> float:
    """The number of the episode from which on it holds; NaN where it does not at the end."""
    broken = np.flatnonzero(~holds)
    if len(broken) == 0:
        return 1.0
    return float(broken[-1] + 2) if broken[-1] + 1 < len(holds) else float("nan")


def rows(names: list[str], seeds: int) -> Iterator[str]:
    """The table, line by line."""
    yield "| problem | learner | limit kept for good | 95 % of the optimum | first proof that it is safe |"
    yield "|---|---|---:|---:|---:|"
    for name in names:
        problem = ss.problems.make(name.partition(",")[0], **PROBLEMS[name])
        makers: dict[str, Callable[[], Learner]] = {
            "**spot-epochs**": functools.partial(SpotEpochs, **problem.interface),
            **others(problem, EPISODES),
        }
        for title, make in makers.items():
            found = [moments(problem, make(), FIRST_SEED + k) for k in range(seeds)]
            cells = [_cell(found, part) for part in ("kept", "good", "proven")]
            yield f"| `{name}` | {title} | {' | '.join(cells)} |"


def _cell(found: list[Moments], part: str) -> str:
    """The median episode, and the seconds to it; a dash where half of the runs did not come so far."""
    ends = [np.inf if np.isnan(getattr(each, part)) else getattr(each, part) for each in found]
    middle = median(ends)
    if np.isinf(middle):
        return "—"
    return f"{middle:,.0f} ({middle * median(each.seconds for each in found):.2g} s)"


def main() -> None:
    """Measure, and write."""
    parser = argparse.ArgumentParser(prog="python -m studies.proof", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", action="append", choices=list(PROBLEMS))
    asked = parser.parse_args()
    lines = [where(machine(), time.strftime("%Y-%m-%d")) + f" {asked.seeds} seeds.", ""]
    for line in rows(asked.only or list(PROBLEMS), asked.seeds):
        print(line, flush=True)
        lines.append(line)
    if asked.only is None:
        write_between(RESULTS / "performance.md", "proof", "\n".join(lines))


if __name__ == "__main__":
    main()
