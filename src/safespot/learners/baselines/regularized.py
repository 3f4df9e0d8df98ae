"""Regularized primal-dual (Müller, Alatur, Cevher, Ramponi, He 2024, "Truly no-regret learning in constrained
MDPs"; Kitamura et al. 2024, UOpt-RPGPD).

The Lagrangian plus tau times the entropy of the policy and plus tau/2 times the squared multipliers has one saddle
point, and its primal-dual steps approach it: the *last* policy is good, not only the average, so that nothing
cancels in the strong regret.

    Q   = Q_r + sum_i lambda_t,i Q_{g_i} + tau (-ln pi_t + Q_entropy)          truncated, optimistic (Algorithm TPE)
    pi_{t+1}(a|s) ∝ pi_t(a|s) exp(eta Q(s,a))
    lambda_{t+1}  = clip((1 - step tau) lambda_t + step (alpha - V_g), 0, rho).

Q_entropy is the entropy collected after this step, evaluated as a reward is: with the bonus, and capped at ``(H -
h) ln A``.

Guarantee with known thresholds: *strong* regret and violation of order T^0.93 (Müller et al.).

Deviations.
1. Bonus and truncation are SPOT's (D1, D3, D8), so that the two learners differ in the regularization alone.
2. Where the papers' constants are not explicit: ``tau = T^(-1/7)``, ``eta = T^(-5/7) / (H^2 (1 + m rho))``, ``step
   = eta``, which balance the bias of the regularization, of order sqrt(tau), with the drift of the steps. Each can
   be given.
3. Data up to and including episode t make the policy of t+1. Anytime, policy and multipliers start over with every
   epoch.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Self

import numpy as np
from pydantic import model_validator

from ...arrays import Bool, Float, InsideEpisode, Int, Policy
from ...errors import InvalidOption
from ...kernels.jit import inlined, kernel
from ...kernels.sums import offset
from ...spot.limits import learn_thresholds
from ...spot.optimism import Radii, refresh_pair, transition_radius
from ...spot.planning import evaluate_states, start_gap
from ...spot.updates import softmax, workspace
from ...spot.visits import Statistics, add_visit
from ...spot.window import Window
from ..compiled_step import MOVED, step_for
from ..doubling import Epoch, epoch_radii
from ..options import Scale, SpotOptions, option_record
from ..primal_dual import PrimalDual


@option_record
class RegularizedOptions(SpotOptions):
    """The options of `RegularizedPrimalDual`: those of `SpotOptions`, and one more.

    Args:
        bonus_scale: c, of every radius but the thresholds'; 1 is what the theorems need, practice takes less.
        regularization: tau, of the entropy and of the multipliers; ``T^(-1/7)`` by default.

    """

    regularization: Scale | None = None

    @model_validator(mode="after")
    def _check_bonus_scale(self) -> Self:
        if isinstance(self.bonus_scale, str):
            raise InvalidOption('bonus_scale="auto" is for spot; give a number here.')
        return self


class RegularizedRates(NamedTuple):
    """The constants of the steps of one epoch."""

    radii: Radii
    eta: float  # the step of the policy
    step: float  # the step of the multipliers
    tau: float  # the regularization
    unit: float  # in which entropy is collected, ln A
    xi: float  # the stance
    rho: float  # the bound of the multipliers
    start: int  # the state, or S: the start distribution is learned (D5)
    learned: bool  # whether the thresholds are learned


class RegularizedScratch(NamedTuple):
    """Buffers that a step works in. The entropy is the last of 2 + m components."""

    G: Float  # [2+m, S]
    D: Float  # [2+m, S*A]
    Q: Float  # [H*S*A]
    softmax: Float  # [H*S*A + 3]
    gap: Float  # [2+m]
    prices: Float  # [1+m]: the multipliers, and what a unit of entropy is worth


class RegularizedState(NamedTuple):
    """The state that a step changes, but for the statistics and the window."""

    logits: Float  # [H, S, A], at most 0
    pi: Policy  # [H, S, A]: the softmax of the logits
    flat_logits: Float  # [H*S*A]: the same memory
    flat_pi: Float  # [H*S*A]
    lam: Float  # [m]
    lower: Float  # [m]: threshold bounds from the finished episodes, derived from the window
    upper: Float  # [m]
    finished: Int  # [1]: episodes
    mask: Bool  # [H, S*A]
    all_deficits: Float  # [2+m, H, S*A]: 1 - v_bar, derived; of the entropy the bonus alone
    deficit: Float  # [1+m, H, S*A]: all but the last of these, the same memory
    weight: Float  # [H, S*A]: 1 / n, derived from the statistics
    max_deficit: Float  # [H, S]: as `refresh_pair` leaves it
    scratch: RegularizedScratch


class RegularizedPrimalDual(PrimalDual):
    """Primal-dual steps on a Lagrangian with entropy and a quadratic in the multipliers.

    Examples:
        >>> import safespot as ss
        >>> problem = ss.problems.make("machine")
        >>> learner = ss.learners.RegularizedPrimalDual(
        ...     **problem.interface, episodes=500, thresholds=[1.0], rho=2.4, bonus_scale=0.01,
        ...     regularization=0.05, policy_step=0.2, dual_step=0.2,
        ... )
        >>> run = ss.learn(problem, learner)
        >>> print(run.values[-1].round(1), run.constraint_values[-1].round(1))
        11.6 [1.2]

    """

    name = "regularized-primal-dual"
    options_type = RegularizedOptions
    options: RegularizedOptions
    state: RegularizedState
    rates: RegularizedRates

    def _empty_state(self) -> RegularizedState:
        f = self.interface
        pairs, components = f.S * f.A, 2 + f.m
        logits, pi = np.where(f.mask, 0.0, -np.inf), np.zeros((f.H, f.S, f.A))
        deficits = np.zeros((components, f.H, pairs))
        return RegularizedState(
            logits=logits,
            pi=pi,
            flat_logits=logits.reshape(-1),
            flat_pi=pi.reshape(-1),
            lam=np.zeros(f.m),
            lower=np.zeros(f.m),
            upper=np.full(f.m, float(f.H)),
            finished=np.zeros(1, np.int64),
            mask=np.array(f.mask.reshape(f.H, pairs), order="C"),
            all_deficits=deficits,
            deficit=deficits[:-1],
            weight=np.zeros((f.H, pairs)),
            max_deficit=np.zeros((f.H, f.S)),
            scratch=RegularizedScratch(
                G=np.zeros((components, f.S)),
                D=np.zeros((components, pairs)),
                Q=np.zeros(f.H * pairs),
                softmax=workspace(f.H * f.S, f.A),
                gap=np.zeros(components),
                prices=np.zeros(1 + f.m),
            ),
        )

    def _make_rates(self, now: Epoch) -> RegularizedRates:
        f, o, T = self.interface, self.options, now.length
        paper = T ** (-5.0 / 7.0) / (f.H**2 * (1.0 + f.m * self.rho))
        tau = T ** (-1.0 / 7.0) if o.regularization is None else o.regularization
        eta = paper if o.policy_step is None else o.policy_step
        step = paper if o.dual_step is None else o.dual_step
        if max(eta, step) * tau >= 1.0:
            raise InvalidOption("regularization times a step must be below 1: take smaller steps.")
        return RegularizedRates(
            radii=epoch_radii(f, o, now, bernstein=o.bonus == "bernstein"),
            eta=float(eta),
            step=float(step),
            tau=float(tau),
            unit=math.log(max(f.A, 2)),
            xi=o.xi,
            rho=self.rho,
            start=f.S if f.start is None else f.start,
            learned=o.thresholds is None,
        )

    def _derive_model(self) -> None:
        super()._derive_model()
        v_hat = self.statistics.sums[0] / np.maximum(self.statistics.n, 1)
        self.state.all_deficits[-1] = self.state.deficit[0] + v_hat - 1.0

    def _begin_epoch(self) -> None:
        """Begin a new epoch with one step, so that its first policy has one behind it, as every other."""
        super()._begin_epoch()
        improve_once(self.rates, self.state, self.statistics)


@step_for(RegularizedRates)
def regularized_step(
    rates: RegularizedRates,
    state: RegularizedState,
    statistics: Statistics,
    window: Window,
    episode: InsideEpisode,
) -> int:
    """Count an episode, then take one step of the policy and one of the multipliers."""
    statistics.starts[episode.states[0]] += 1
    entropy = state.all_deficits.shape[0] - 1
    for h in range(episode.pairs.shape[0]):
        s, pair = episode.states[h], episode.pairs[h]
        reward, constraints = episode.rewards[h], episode.constraints[h]
        if math.isnan(reward):  # an unfinished episode teaches no more of the process
            break
        add_visit(statistics, h, s, pair, episode.states[h + 1], reward, constraints)
        refresh_pair(
            rates.radii, statistics, state.mask, h, s, pair,
            state.deficit, state.weight, state.max_deficit,
        )  # fmt: skip
        # The entropy is collected in units of ln A; what follows a pair is at most H - h of them.
        v_hat = statistics.sums[0, h, pair] / statistics.n[h, pair]
        state.all_deficits[entropy, h, pair] = state.deficit[0, h, pair] + v_hat - 1.0
    state.finished[0] += 1
    if rates.learned:
        learn_thresholds(window, rates.radii, episode, state.lower, state.upper)
    improve(rates, state, statistics)
    return MOVED


@inlined
def improve(rates: RegularizedRates, state: RegularizedState, statistics: Statistics) -> None:
    """Take one step of the policy and one of the multipliers on the current data.

    As in `spot.planning`, what is carried is the gap to the cap. The entropy of step h itself, ``unit - entropy`` below
    its cap of one unit, joins the gap of the state and not that of its actions: ``-ln pi`` acts through the logits.
    """
    H, S, A = state.pi.shape
    m, w, pairs = state.lam.shape[0], state.scratch, S * A
    for i in range(m):
        w.prices[i] = state.lam[i]
    w.prices[m] = rates.tau * rates.unit
    for h in range(H - 1, -1, -1):
        evaluate_states(
            statistics.successors, state.all_deficits, state.weight, state.flat_pi[offset(h, pairs) :], w.prices,
            A, h, 0, S, w.G, w.D, w.Q[offset(h, pairs) :], w.G,
        )  # fmt: skip
        for s in range(S):
            w.G[1 + m, s] += 1.0 - row_entropy(state.pi[h, s]) / rates.unit
    for k in range(state.flat_logits.shape[0]):
        kept = (1.0 - rates.eta * rates.tau) * state.flat_logits[k]
        state.flat_logits[k] = kept + rates.eta * w.Q[k]
    softmax(state.flat_logits, state.flat_pi, A, 0, H * S, w.softmax)
    finished = state.finished[0]
    phi_0 = rates.radii.bonus_scale * transition_radius(rates.radii, float(finished))
    start_gap(w.G, rates.start, statistics.starts, finished, phi_0, w.gap)
    for i in range(m):
        alpha = rates.xi * state.lower[i] + (1.0 - rates.xi) * state.upper[i]
        moved = (1.0 - rates.step * rates.tau) * state.lam[i]
        moved += rates.step * (alpha - (H - w.gap[1 + i]))
        state.lam[i] = min(max(moved, 0.0), rates.rho)


@inlined
def row_entropy(row: Float) -> float:
    """Return ``-sum_a pi(a) ln pi(a)``."""
    entropy = 0.0
    for a in range(row.shape[0]):
        if row[a] > 0.0:
            entropy -= row[a] * math.log(row[a])
    return entropy


@kernel
def improve_once(rates: RegularizedRates, state: RegularizedState, statistics: Statistics) -> None:
    """Call `improve` between two episodes."""
    improve(rates, state, statistics)
