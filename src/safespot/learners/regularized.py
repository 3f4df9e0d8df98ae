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
3. Data up to and including episode t make the policy of t+1. Anytime, policy and multipliers begin anew with every
   epoch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..arrays import Float, Int
from ..errors import InvalidOption
from ..kernels.jit import kernel
from ..spot.optimism import refresh_all, transition_radius
from ..spot.planning import evaluate_states, start_gap
from ..spot.updates import softmax, workspace
from ..spot.visits import Successors
from .learner import epoch_at
from .options import SpotOptions
from .planner import Planner


@dataclass(frozen=True, kw_only=True)
class RegularizedOptions(SpotOptions):
    """The options of `RegularizedPrimalDual`: those of `SpotOptions`, and one more.

    Args:
        regularization: tau, of the entropy and of the multipliers; ``T^(-1/7)`` by default.

    """

    regularization: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_step("regularization")


class RegularizedPrimalDual(Planner):
    """Primal-dual steps on a Lagrangian with entropy and a quadratic in the multipliers."""

    name = "regularized-primal-dual"
    options_type = RegularizedOptions
    options: RegularizedOptions

    def _derive(self) -> None:
        f, o = self.interface, self.options
        self.rho, self.bernstein = self._rho(o), o.bonus == "bernstein"
        T = epoch_at(self.episode, o.episodes).length
        paper = T ** (-5.0 / 7.0) / (f.H**2 * (1.0 + f.m * self.rho))
        self.tau = T ** (-1.0 / 7.0) if o.regularization is None else o.regularization
        self.eta = paper if o.policy_step is None else o.policy_step
        self.step = paper if o.dual_step is None else o.dual_step
        if max(self.eta, self.step) * self.tau >= 1.0:
            raise InvalidOption("regularization times a step must be below 1: take smaller steps.")
        if self.state.logits.size == 0:
            self.state = self.state._replace(**self.begin_epoch())
        super()._derive()

    def begin_epoch(self) -> dict[str, NDArray]:
        """The uniform policy and multipliers of 0."""
        mask = self.interface.mask
        return {
            "pi": np.array(self.first_policy()),
            "lam": np.zeros(self.interface.m),
            "logits": np.where(mask, 0.0, -np.inf),
        }

    def plan(self) -> dict[str, NDArray]:
        """One step of the policy and one of the multipliers."""
        f, radii, statistics, state = self.interface, self.rates.radii, self.statistics, self.state
        t = self.episode - 1
        deficit, weight = self._model()
        unit = math.log(max(f.A, 2))
        prices = np.r_[state.lam, self.tau * unit]
        Q, G = evaluate_regularized(statistics.successors, deficit, weight, state.pi, prices, unit)
        logits = (1.0 - self.eta * self.tau) * state.logits + self.eta * Q.reshape(f.H, f.S, f.A)
        pi, work = np.zeros((f.H, f.S, f.A)), workspace(f.H * f.S, f.A)
        softmax(logits.reshape(-1), pi.reshape(-1), f.A, 0, f.H * f.S, work)
        phi_0 = radii.bonus_scale * transition_radius(radii, float(t))
        gap = start_gaps(G, -1 if f.start is None else f.start, statistics.starts, t, phi_0)
        shortfall = self.limits - (f.H - gap[1:-1])
        lam = (1.0 - self.step * self.tau) * state.lam + self.step * shortfall
        return {"pi": pi, "lam": lam.clip(0.0, self.rho), "logits": logits}

    def _model(self) -> tuple[Float, Float]:
        """`deficit` = 1 - v_bar ``[2+m, H, S*A]``, of the entropy last, and `weight` = 1 / n, as planning reads them.

        The entropy is collected in units of ln A; what follows a pair is at most H - h of them, so that its `deficit`
        is the bonus alone.
        """
        f, statistics = self.interface, self.statistics
        shape = statistics.n.shape
        deficit, weight, max_deficit = (
            np.zeros((1 + f.m, *shape)),
            np.zeros(shape),
            np.zeros((f.H, f.S)),
        )
        mask = np.array(f.mask.reshape(shape))
        refresh_all(self.rates.radii, statistics, mask, deficit, weight, max_deficit)
        v_hat = statistics.sums[0] / np.maximum(statistics.n, 1)
        return np.concatenate([deficit, (deficit[0] + v_hat - 1.0)[None]]), weight

    def _plausible(self, carried: dict[str, NDArray]) -> bool:
        same = (carried["logits"] == -np.inf) == ~self.interface.mask
        return bool(same.all()) and super()._plausible(carried)


@kernel
def evaluate_regularized(
    successors: Successors, deficit: Float, weight: Float, pi: Float, prices: Float, unit: float
) -> tuple[Float, Float]:
    """Truncated evaluation with the entropy as the last component: ``Q`` ``[H, S*A]``, at most 0, and gaps ``[2+m,
    S]``.

    As in `planning`, what is carried is the gap to the cap. The entropy of step h itself, ``unit - entropy`` below
    its cap of one unit, joins the gap of the state and not that of its actions: ``-ln pi`` acts through the logits.
    """
    H, S, A = pi.shape
    components = deficit.shape[0]
    G, D, Q = np.zeros((components, S)), np.zeros((components, S * A)), np.zeros((H, S * A))
    for h in range(H - 1, -1, -1):
        policy = pi[h].reshape(S * A)
        evaluate_states(successors, deficit, weight, policy, prices, A, h, 0, S, G, D, Q[h], G)
        for s in range(S):
            entropy = 0.0
            for a in range(A):
                if pi[h, s, a] > 0.0:
                    entropy -= pi[h, s, a] * math.log(pi[h, s, a])
            G[components - 1, s] += 1.0 - entropy / unit
    return Q, G


@kernel
def start_gaps(G: Float, start: int, starts: Int, finished: int, phi_0: float) -> Float:
    """`start_gap` of every component."""
    gap = np.zeros(G.shape[0])
    start_gap(G, start, starts, finished, phi_0, gap)
    return gap
