"""The empirical CMDP of logged episodes: counts -> p_hat, r_hat, g_hat, alpha_hat.

**What was never tried.** Nothing is known of a pair without a visit, and a guess would be believed: an optimum goes
where a model promises most. So an action that nobody took in a state is inadmissible there. A state in which nobody
acted is left at the worst: it keeps its lowest action, which leads back to it with the lowest reward and the worst
of every constraint. Where steps are counted apart no episode of the model meets such a state; where they are pooled,
one may, if it was met at the last step only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ..arrays import Float, Int, frozen, place
from ..errors import InvalidFile, InvalidOption
from ..evidence.interface import Interface, make_interface
from ..model.cmdp import CMDP
from .logs import SHOWN, Log


@dataclass(frozen=True, eq=False)
class EmpiricalModel:
    """The CMDP that a log shows; `str` names what it does not show. K is H, or 1 where steps are pooled.

    Examples:
        >>> import safespot as ss
        >>> problem, noise = ss.problems.make("machine"), ss.streams(seed=0)
        >>> gentle = [[1, 0], [1, 0]]
        >>> ss.write_log("past.csv", [ss.play(problem, gentle, noise, t) for t in range(1, 21)])
        >>> print(ss.empirical_model(ss.read_log("past.csv", **problem.interface)))
        <CMDP S=2 A=2 H=2 m=1, sparse transitions> from 40 steps.
        2 actions were never tried and are inadmissible: step 0, state 0, action 1; step 1, state 0, action
        1
        2 states were never acted in and count as the worst: step 0, state 1; step 1, state 1

    """

    cmdp: CMDP
    visits: Int  # [K, S, A]
    untried: Int  # [., 3]: (k, state, action) that nobody took where somebody acted; inadmissible in the CMDP
    unmet: Int  # [., 2]: (k, state) in which nobody acted; at the worst in the CMDP

    def __str__(self) -> str:
        pooled = len(self.visits) == 1
        lines = [f"{self.cmdp!r} from {self.visits.sum():,} steps."]
        for rows, axes, what in (
            (self.untried, "hsa", "actions were never tried and are inadmissible"),
            (self.unmet, "hs", "states were never acted in and count as the worst"),
        ):
            if len(rows):
                names = [place(axes[pooled:], row[pooled:]) for row in rows[:SHOWN].tolist()]
                more = "; …" if len(rows) > SHOWN else ""
                lines.append(f"{len(rows):,} {what}: {'; '.join(names)}{more}")
        return "\n".join(lines)


def empirical_model(
    log: Log, *, stationary: bool = False, thresholds: ArrayLike | None = None
) -> EmpiricalModel:
    """The empirical CMDP of a log: a model for `solve`, `learn` and whatever takes a `CMDP`.

    Args:
        log: its episodes are counted.
        stationary: pool the steps, where nothing but the policy depends on them: every pair is then seen more often.
        thresholds: known ones, ``[m]`` or ``[m,H]``; None takes the mean of the threshold samples. A step
            without any sample takes the mean of all.

    Examples:
        >>> import safespot as ss
        >>> problem, noise = ss.problems.make("machine"), ss.streams(seed=0)
        >>> coin = [[0.5, 0.5], [0.5, 0.5]]
        >>> ss.write_log("past.csv", [ss.play(problem, coin, noise, t) for t in range(1, 501)])
        >>> model = ss.empirical_model(ss.read_log("past.csv", **problem.interface))
        >>> print(round(ss.solve(model.cmdp).value, 2), round(ss.solve(problem.cmdp).value, 2))
        11.21 11.0

    """
    if not log.episodes:
        raise InvalidFile(f"there are no usable episodes to estimate a model from.\n{log}")
    f = make_interface(**log.interface)
    if stationary and (np.diff(f.mask, axis=0)).any():
        raise InvalidOption(
            "stationary=True needs an action_mask [S,A] that is the same at every step."
        )
    K = 1 if stationary else f.H
    pairs = f.S * f.A
    states, acted = (
        np.array([getattr(e, name) for e in log.episodes]) for name in ("states", "actions")
    )
    # Episode by episode and step by step: sums are added up in the order in which a learner adds them up.
    where = (np.arange(f.H) % K * pairs + states[:, :-1] * f.A + acted).ravel()
    n = np.bincount(where, minlength=K * pairs)
    followed = sparse.coo_array(
        (np.ones(where.size), (where, states[:, 1:].ravel())), (K * pairs, f.S)
    ).tocsr()
    signals = np.concatenate(
        [
            np.stack([e.rewards for e in log.episodes])[:, :, None],
            [e.constraints for e in log.episodes],
        ],
        axis=2,
    ).reshape(-1, 1 + f.m)
    sums = np.stack([np.bincount(where, signal, K * pairs) for signal in signals.T])

    visited = (n > 0).reshape(K, f.S, f.A)
    declared = np.asarray(f.mask[:K])
    unmet = ~visited.any(axis=2)
    lowest = np.ravel_multi_index(
        (*np.nonzero(unmet), declared.argmax(axis=2)[unmet]), (K, f.S, f.A)
    )
    admissible = visited.copy()
    admissible.ravel()[lowest] = True
    back = sparse.coo_array((np.ones(lowest.size), (lowest, lowest // f.A % f.S)), followed.shape)
    followed.data /= np.repeat(n, np.diff(followed.indptr))
    chances = (followed + back).tocsr()
    worst = np.r_[f.units.reward.outside(0.0), f.units.constraints.outside(np.zeros(f.m))]
    means = np.where(n > 0, sums / np.maximum(n, 1), worst[:, None]).reshape(1 + f.m, K, f.S, f.A)
    each = [chances[k * pairs : (k + 1) * pairs] for k in range(K)]
    cmdp = CMDP(
        each[0] if stationary else each,
        means[0, 0] if stationary else means[0],
        means[1:, 0] if stationary else means[1:],
        _mean_thresholds(log, K, f) if thresholds is None else thresholds,
        _start(states[:, 0], f.S),
        f.units.senses,
        admissible[0] if stationary else admissible,
        f.units.reward_range,
        f.units.constraint_ranges,
        horizon=f.H,
        **f.names.arguments,
    )
    untried = np.argwhere(declared & ~visited & ~np.asarray(unmet)[:, :, None])
    return EmpiricalModel(
        cmdp, frozen(n.reshape(K, f.S, f.A)), frozen(untried), frozen(np.argwhere(unmet))
    )


def _mean_thresholds(log: Log, K: int, f: Interface) -> Float:
    """The means of the threshold samples, ``[m,H]``."""
    samples = np.array([e.thresholds for e in log.episodes]).reshape(-1, f.H // K, K, f.m)
    there = ~np.isnan(samples[..., 0])
    if not there.any():
        raise InvalidFile(
            f"{log.source} has no threshold samples, so its limits are unknown. Give thresholds=, a total for each "
            "constraint."
        )
    n = there.sum(axis=(0, 1))
    sums = np.nansum(samples, axis=(0, 1))
    means = np.where(n[:, None] > 0, sums / np.maximum(n, 1)[:, None], sums.sum(axis=0) / n.sum())
    return np.broadcast_to(means.T, (f.m, f.H)).copy()


def _start(states: Int, S: int) -> int | Float:
    counts = np.bincount(states, minlength=S)
    return int(states[0]) if np.count_nonzero(counts) == 1 else counts / len(states)
