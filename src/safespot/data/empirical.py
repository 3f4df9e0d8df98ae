"""The empirical CMDP of logged episodes: counts -> p_hat, r_hat, g_hat, alpha_hat.

**What was never tried.** Nothing is known of a pair without a visit, and a guess would be believed: an optimum goes
where a model promises most. So an action without a visit in a state is inadmissible there. A state without any
visit is left at the worst: it keeps its lowest action, which leads back to it with the lowest reward and the worst
of every constraint. Where steps are counted apart no episode of the model meets such a state; where they are pooled,
one may, if it was met at the last step only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ..arrays import Float, Int, as_policy, frozen, place
from ..display import Displayed
from ..errors import InvalidFile, InvalidOption
from ..model.cmdp import CMDP
from ..planning.counted import Known, Pooled, count_model, imagine, row_starts
from ..planning.errors import standard_errors
from ..signals.interface import Interface, make_interface
from .logs import SHOWN, Log

TRACE = 1e-9  # imaginary visits: enough for unvisited pairs to count as the worst, too few to matter elsewhere


@dataclass(frozen=True, eq=False, repr=False)
class EmpiricalModel(Displayed):
    """The CMDP that a log shows; `str` names what it does not show. K is H, or 1 where steps are pooled.

    Examples:
        >>> import safespot as ss
        >>> problem, noise = ss.problems.make("machine"), ss.streams(seed=0)
        >>> gentle = [[1, 0], [1, 0]]
        >>> ss.write_log("past.csv", [ss.play(problem, gentle, noise, t) for t in range(1, 21)])
        >>> print(ss.logs.empirical_model(ss.read_log("past.csv", **problem.interface)))
        Empirical model of 40 steps: <CMDP S=2 A=2 H=2 m=1, sparse transitions>
        2 actions were never tried and are inadmissible: step 0, state 0, action 1; step 1, state 0, action
        1
        2 states were never acted in and count as the worst: step 0, state 1; step 1, state 1

    """

    cmdp: CMDP
    visits: Int  # [K, S, A]
    untried: Int  # [., 3]: (k, state, action) without a visit in visited states; inadmissible in the CMDP
    unmet: Int  # [., 2]: (k, state) without a visit; at the worst in the CMDP
    episodes: int
    pooled: Pooled  # the counts, inside

    def standard_errors(self, policy: ArrayLike) -> tuple[float, Float]:
        """Return the standard errors of ``evaluate(model.cmdp, policy)``: of its value, and of its constraints ``[m]``.

        By the delta method: how far the model is from the truth by the chance of so few cases, where the truth is a
        Markov process with these states. A normal approximation, and no bound.
        """
        c = self.cmdp
        pi = np.array(as_policy(policy, (c.H, c.S, c.A), c.actions))
        f = make_interface(c.S, c.A, c.H, c.m)
        least = np.repeat([[0.0], [float(c.H)]], c.m, axis=1)
        nothing = Known(np.zeros((1 + c.m, 1, c.S * c.A)), np.zeros(1 + c.m, np.bool_))
        everything = np.ones((1, c.S * c.A), np.bool_)
        model = count_model(
            self.pooled, imagine(f.H, f.m, TRACE, least, best=False), nothing, everything
        )
        _, errors = standard_errors(model, nothing, pi, self.episodes)
        units = c.units
        return float(errors[0] * units.reward.scale), errors[1:] * np.abs(units.constraints.scale)

    def _facts(self) -> dict[str, Any]:
        counts = {
            "steps": int(self.visits.sum()),
            "untried": len(self.untried),
            "unmet": len(self.unmet),
        }
        return {"cmdp": repr(self.cmdp), **counts}

    def __str__(self) -> str:
        pooled = len(self.visits) == 1
        lines = [f"Empirical model of {self.visits.sum():,} steps: {self.cmdp!r}"]
        for rows, axes, remark in (
            (self.untried, "hsa", "actions were never tried and are inadmissible"),
            (self.unmet, "hs", "states were never acted in and count as the worst"),
        ):
            if len(rows):
                names = [place(axes[pooled:], row[pooled:]) for row in rows[:SHOWN].tolist()]
                more = "; …" if len(rows) > SHOWN else ""
                lines.append(f"{len(rows):,} {remark}: {'; '.join(names)}{more}")
        return "\n".join(lines)


def pool_log(log: Log, stationary: bool) -> Pooled:
    """Return a log's counts in inside units, in a learner's order; alike steps share them."""
    f = make_interface(**log.interface)
    inside = [f.check(episode) for episode in log.episodes]
    K, pairs = 1 if stationary else f.H, f.S * f.A
    states, taken = (np.array([getattr(e, name) for e in inside]) for name in ("states", "pairs"))
    rewards, constraints = (
        np.array([getattr(e, name) for e in inside]) for name in ("rewards", "constraints")
    )
    # An unfinished episode teaches nothing from its first missing reward on.
    came = ~np.logical_or.accumulate(np.isnan(rewards), axis=1)
    where = (np.arange(f.H) % K * pairs + taken)[came]
    each = np.concatenate([rewards[:, :, None], constraints], axis=2)[came]
    sums: Float = np.stack([np.bincount(where, signal, K * pairs) for signal in each.T])
    followed = sparse.coo_array(
        (np.ones(where.size), (where, states[:, 1:][came])), (K * pairs, f.S)
    ).tocsr()
    return Pooled(
        np.bincount(where, minlength=K * pairs).reshape(K, pairs).astype(np.float64),
        sums.reshape(1 + f.m, K, pairs),
        row_starts(followed.indptr[1:].astype(np.int64), K),
        followed.indices.astype(np.int32),
        followed.data,
        np.bincount(states[:, 0], minlength=f.S) / len(inside),
    )


def empirical_model(log: Log, *, stationary: bool = False) -> EmpiricalModel:
    """Return the empirical CMDP of a log: a model for `solve`, `learn` and whatever takes a `CMDP`.

    Args:
        log: its episodes are counted.
        stationary: pool the steps, where nothing but the policy depends on them: every pair is then seen more often.

    Thresholds are those of the log where they are known, else the means of its hints; a step without any hint takes the
    mean of all.

    Examples:
        >>> import safespot as ss
        >>> problem, noise = ss.problems.make("machine"), ss.streams(seed=0)
        >>> coin = [[0.5, 0.5], [0.5, 0.5]]
        >>> ss.write_log("past.csv", [ss.play(problem, coin, noise, t) for t in range(1, 501)])
        >>> model = ss.logs.empirical_model(ss.read_log("past.csv", **problem.interface))
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
    counted = pool_log(log, stationary)
    K, pairs = counted.n.shape
    n = counted.n.astype(np.int64).ravel()
    followed = sparse.csr_array(
        (
            counted.counts.copy(),
            counted.states,
            np.append(counted.first[:, :-1], len(counted.counts)),
        ),
        (K * pairs, f.S),
    )
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
    # An unvisited pair counts as the worst: 0, inside.
    inside = (counted.sums / np.maximum(counted.n, 1.0)).reshape(1 + f.m, K, f.S, f.A)
    rewards = f.units.reward.outside(inside[0])
    constraints = np.moveaxis(f.units.constraints.outside(np.moveaxis(inside[1:], 0, -1)), -1, 0)
    each = [chances[k * pairs : (k + 1) * pairs] for k in range(K)]
    cmdp = CMDP(
        each[0] if stationary else each,
        rewards[0] if stationary else rewards,
        constraints[:, 0] if stationary else constraints,
        _mean_thresholds(log, K, f) if log.thresholds is None else log.thresholds,
        _start(counted.start),
        f.units.senses,
        admissible[0] if stationary else admissible,
        f.units.reward_range,
        f.units.constraint_ranges,
        horizon=f.H,
        **f.names.arguments,
    )
    untried = np.argwhere(declared & ~visited & ~np.asarray(unmet)[:, :, None])
    return EmpiricalModel(
        cmdp, frozen(n.reshape(K, f.S, f.A)), frozen(untried), frozen(np.argwhere(unmet)),
        len(log.episodes), counted,
    )  # fmt: skip


def _mean_thresholds(log: Log, K: int, f: Interface) -> Float:
    """Return the means of the threshold samples, ``[m,H]``."""
    samples = np.array([e.thresholds for e in log.episodes]).reshape(-1, f.H // K, K, f.m)
    there = ~np.isnan(samples[..., 0])
    if not there.any():
        raise InvalidFile(
            f"{log.source} has no threshold samples, so its limits are unknown. Read it with limits= that have a "
            "threshold."
        )
    n = there.sum(axis=(0, 1))
    sums = np.nansum(samples, axis=(0, 1))
    means = np.where(n[:, None] > 0, sums / np.maximum(n, 1)[:, None], sums.sum(axis=0) / n.sum())
    return np.broadcast_to(means.T, (f.m, f.H)).copy()


def _start(shares: Float) -> int | Float:
    return int(shares.argmax()) if np.count_nonzero(shares) == 1 else shares
