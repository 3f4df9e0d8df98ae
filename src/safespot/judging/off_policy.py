"""`evaluate_log`: what a log proves of a policy that did not make it, by importance weighting.

Let b be the behaviour that made the log, and w_h = prod_{k<=h} pi(a_k|s_k) / b(a_k|s_k). For every signal u >= 0,

    E_b[ sum_h min(w_h, c) u_h ]  <=  E_b[ sum_h w_h u_h ]  <=  V_u^pi,

the first since clipping only takes away, the second since what b never does adds nothing to the left side and no less
than nothing to the right one (it is an equality where b does all that pi does). So a *lower* bound of the mean of
clipped, weighted sums is one of V_u, whatever the weights are. An upper bound of V_g is H less the lower one of 1 - g,
and with x the threshold samples, which do not depend on actions,

    V_g - alpha   =  E[ sum_h w_h g_h + (1 - x_h) ] - H,        alpha - V_g  =  E[ sum_h w_h (1 - g_h) + x_h ] - H.

Each is one statement about non-negative sums, bounded by `sequences.FixedMeans`, whose lower bounds hardly depend on
how far a sum can reach. The level c of every statement is chosen on episodes of its own (every fourth one), which the
bound then does not count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Bool, Episode, Float, Policy, as_policy
from ..data.logs import Log
from ..errors import InvalidModel, InvalidOption
from ..evidence.certificate import Certificate, issue, policy_digest
from ..evidence.counter import as_delta
from ..evidence.sequences import lower_bounds
from ..evidence.trial import as_bounds, statement_levels, thresholds_assumption
from ..files import checksum
from ..signals.behavior import as_behaviour
from ..signals.interface import Interface, make_interface
from ..signals.terms import Terms, interface_terms
from ..signals.totals import Declared, check_sums, declare, episode_sums

PILOT = 4  # 1 / PILOT of the episodes choose where weights are clipped
FEWEST = 8  # episodes of a log
CLIPS = 2.0 ** np.arange(0, 31)  # levels to choose from
USELESS = 10.0  # effective episodes below which a log says next to nothing


@dataclass(frozen=True, eq=False)
class LogEvaluation:
    """The evidence of a log on a policy that did not make it.

    Examples:
        >>> import safespot as ss
        >>> problem, noise = ss.problems.make("machine"), ss.streams(seed=0)
        >>> coin = [[0.5, 0.5], [0.5, 0.5]]
        >>> ss.write_log("past.csv", [ss.play(problem, coin, noise, t) for t in range(1, 1001)])
        >>> log = ss.read_log("past.csv", **problem.interface)
        >>> found = ss.evaluate_log(log, [[1, 0], [1, 0]], behaviour=coin)
        >>> found.certificate.verdict
        ('safe',)
        >>> round(found.effective_episodes)
        195

    """

    certificate: Certificate  # all bounds, and what they rest on
    effective_episodes: float  # how many episodes of the policy itself would be worth as much

    @property
    def difference_bounds(self) -> tuple[Float, Float]:
        """(lower ``[m]``, upper ``[m]``) of V_g - alpha, > 0: kept."""
        return self.certificate.difference_bounds

    @property
    def value_bounds(self) -> tuple[Float, Float]:
        """(lower ``[m]``, upper ``[m]``) of the constraints' values."""
        return self.certificate.value_bounds

    @property
    def threshold_bounds(self) -> tuple[Float, Float]:
        """(lower ``[m]``, upper ``[m]``) of the thresholds."""
        return self.certificate.threshold_bounds

    @property
    def reward_bounds(self) -> tuple[float, float]:
        """(lower, upper) of the expected reward of an episode."""
        return self.certificate.reward_bounds

    def __str__(self) -> str:
        n, worth = self.certificate.episodes, self.effective_episodes
        if worth < USELESS:
            return (
                f"The log says next to nothing of this policy: its {n:,} episodes are worth {worth:.3g} of the "
                "policy's own, since it mostly acts otherwise than the log does."
            )
        return f"{n:,} episodes of the log are worth about {worth:,.0f} of the policy's own.\n\n{self.certificate}"


def evaluate_log(
    log: Log,
    policy: ArrayLike,
    behaviour: ArrayLike | None = None,
    *,
    delta: float = 0.05,
) -> LogEvaluation:
    """Bound the values of a policy that was not played, from episodes that another one played.

    They hold where the policy was chosen without a look at this log, and where nothing beyond the states moved both the
    logged actions and what followed them (no hidden confounding): no log can show that.

    Args:
        log: its episodes, and what was declared when it was read; propensities are those of its column
            ``propensity``, unless the behaviour is given.
        policy: ``[H,S,A]`` or ``[S,A]``.
        behaviour: the policy that made the log, exactly.
        delta: the confidence is 1 - delta.

    Examples:
        >>> import safespot as ss
        >>> problem, noise = ss.problems.make("machine"), ss.streams(seed=0)
        >>> coin = [[0.5, 0.5], [0.5, 0.5]]
        >>> ss.write_log("past.csv", [ss.play(problem, coin, noise, t) for t in range(1, 1001)])
        >>> log = ss.read_log("past.csv", **problem.interface)
        >>> low, high = ss.evaluate_log(log, [[0, 1], [0, 1]], behaviour=coin).value_bounds
        >>> bool(low[0] <= ss.evaluate(problem.cmdp, [[0, 1], [0, 1]]).constraints[0] <= high[0])
        True

    """
    if not isinstance(log, Log):
        raise InvalidOption(
            f"evaluate_log takes a log, as read_log gives it; got {type(log).__name__}."
        )
    delta = as_delta(delta)
    f = make_interface(**log.interface)
    if len(log.episodes) < FEWEST:
        raise InvalidOption(
            f"{log.source} has {len(log.episodes)} episodes that can be used; expected at least {FEWEST}."
        )
    try:
        pi = as_policy(policy, (f.H, f.S, f.A), f.mask)
    except InvalidModel as exc:
        raise InvalidOption(f"policy: {exc}") from None
    declared = declare(f)
    weights = _weights(log, f, pi, behaviour)
    pilot = np.arange(len(weights)) % PILOT == PILOT - 1
    level = statement_levels(declared, delta)
    stated = _stated(f, declared, log.episodes)
    clips = [_best_clip(each, weights, pilot, x) for each, x in zip(stated, level, strict=True)]
    scale = np.array([s.reach * c + s.spare for s, c in zip(stated, clips, strict=True)])
    rows = np.stack([_clipped(s, weights, c) for s, c in zip(stated, clips, strict=True)], axis=1)
    rows = np.ascontiguousarray((rows / scale)[~pilot].clip(0.0, 1.0))
    shift, unit = np.array([(each.shift, each.unit) for each in stated]).T
    low = ((scale * lower_bounds(rows, level) - shift) / unit).clip(0.0, 1.0)
    return LogEvaluation(
        _certificate(log, interface_terms(f, declared), pi, delta, low, rows),
        effective_episodes(weights[~pilot, -1]),
    )


def effective_episodes(weights: Float) -> float:
    """Return Kish's number, ``(sum w)^2 / sum w^2``; 0 where the policy never acts as the log does."""
    squares = float((weights**2).sum())
    return float(weights.sum()) ** 2 / squares if squares > 0.0 else 0.0


def _weights(log: Log, f: Interface, pi: Policy, behaviour: ArrayLike | None) -> Float:
    """Return the weights w_h of every episode, ``[n, H]``."""
    steps = np.arange(f.H)
    states, actions = (
        np.array([getattr(e, name) for e in log.episodes]) for name in ("states", "actions")
    )
    taken = pi[steps, states[:, :-1], actions]
    if behaviour is not None:
        acted = as_behaviour(behaviour, f, log.episodes, log.propensities)
        chances = acted[steps, states[:, :-1], actions]
    elif log.propensities is not None:
        chances = log.propensities
    else:
        raise InvalidOption(
            f"nothing says how {log.source} chose its actions. Give behaviour=, the policy that made it, or a column "
            "'propensity' with the probability of every action that was taken."
        )
    wrong = ~((chances > 0.0) & (chances <= 1.0))
    if wrong.any():
        episode, step = np.argwhere(wrong)[0]
        raise InvalidOption(
            f"the propensity of usable episode {episode + 1} at step {step} is {chances[episode, step]:g}; expected a "
            "number above 0 and at most 1."
        )
    weights: Float = np.cumprod(taken / chances, axis=1)
    return weights


class _Statement(NamedTuple):
    """A sum whose mean is bounded from below, for n episodes, and how a statement in [0,1] follows from the bound."""

    steps: Float  # [n, H]: what is weighted, non-negative
    reach: float  # the most that it sums to in an episode, unweighted
    fixed: Float  # [n]: what is added unweighted, non-negative
    spare: float  # the most of that
    shift: float  # the statement is the sum less this,
    unit: float  # in units of this


def _stated(f: Interface, declared: Declared, episodes: tuple[Episode, ...]) -> list[_Statement]:
    """Return the statements of `signals.totals.state_totals`, in their order."""
    inside = [f.check(episode) for episode in episodes]
    totals = np.array([episode_sums(e) for e in inside])
    check_sums(declared, totals)  # raises where a total lies outside of what was declared
    H, m, learned = float(f.H), f.m, not len(declared.alpha)
    under, over = np.split(totals[:, 2 + 2 * m :], 2, axis=1)
    low, high = declared.limits
    # How far the threshold's total lies from its ends; known, it lies at both.
    above = (np.maximum(under, low) - low).T if learned else np.zeros((m, len(inside)))
    below = (high - np.minimum(over, high)).T if learned else above
    rewards = np.array([e.rewards for e in inside])
    g = np.moveaxis(np.array([e.constraints for e in inside]), 2, 0)
    nothing, none = np.zeros(len(inside)), np.zeros_like(rewards)
    # What became of an unfinished episode adds nothing to either side.
    sides, g_sides = ([np.nan_to_num(u, nan=0.0) for u in (x, 1.0 - x)] for x in (rewards, g))
    made = [_Statement(u, H, nothing, 0.0, 0.0, H) for u in sides]
    for differences in (True, False):
        for i in range(m):
            (least, most), spare = declared.values[:, i], float(high[i] - low[i])
            fixed, unit = (nothing, nothing), most - least
            if differences:
                fixed, unit = (below[i], above[i]), declared.width[i]
            spare *= differences
            made += [
                _Statement(g_sides[0][i], most, fixed[0], spare, least, unit),
                _Statement(g_sides[1][i], H - least, fixed[1], spare, H - most, unit),
            ]
    for i in range(m if learned else 0):
        wide = float(high[i] - low[i])
        made += [_Statement(none, 0.0, x[i], wide, 0.0, wide) for x in (above, below)]
    return made


def _clipped(statement: _Statement, weights: Float, clip: float) -> Float:
    """Return the sums with weights clipped, ``[n]``."""
    sums: Float = (np.minimum(weights, clip) * statement.steps).sum(axis=1) + statement.fixed
    return sums


def _best_clip(statement: _Statement, weights: Float, pilot: Bool, level: float) -> float:
    """Return the level at which the pilot episodes promise the largest lower bound from the others.

    It is about ``mean - sqrt(2 level (variance + (1/4 range)^2 / n) / n)``: `sequences` begins with a quarter of the
    range as the deviation of one episode.
    """
    n, part = (
        int((~pilot).sum()),
        statement._replace(steps=statement.steps[pilot], fixed=statement.fixed[pilot]),
    )
    largest = float(weights[pilot].max(initial=1.0))

    def promised(clip: float) -> float:
        sums = _clipped(part, weights[pilot], clip)
        quarter = (clip * statement.reach + statement.spare) / 4.0
        return float(sums.mean() - math.sqrt(2.0 * level * (sums.var() + quarter**2 / n) / n))

    return float(max((clip for clip in CLIPS if clip < 2.0 * largest), key=promised))


def _certificate(
    log: Log, terms: Terms, pi: Policy, delta: float, low: Float, rows: Float
) -> Certificate:
    n = len(rows)
    return issue(
        terms,
        as_bounds(terms, low),
        delta,
        episodes=n,
        difference_confidence=1.0 - 2.0 * delta,
        basis=(
            f"It rests on {n:,} episodes of a log that others played, weighted by how much likelier the policy would "
            "have acted as they did, by confidence sequences. "
            f"{len(log.episodes) - n:,} other episodes chose where the weights are clipped."
        ),
        assumptions=(
            "the policy was chosen without a look at these episodes",
            "the log's actions were chosen with the given probabilities, by what the states show: nothing hidden moved "
            "both them and what followed (no hidden confounding)",
            "every episode counts, whatever came of it, and their law does not change",
            "every signal, and every total of an episode, lies in its declared range",
            thresholds_assumption(terms.declared),
        ),
        subject="policy",
        policy_digest=policy_digest(pi),
        data_digest=checksum({"statements": rows}, {"delta": delta, "weighted": True}),
        doubts=log.doubts.sentences(),
    )
