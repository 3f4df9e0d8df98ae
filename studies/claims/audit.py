"""The quantities that the paper's lemmas speak of, measured against the truth along a run.

A learner cannot know whether its intervals hold; with the true model it can be measured. An `Audit` is a callback of
`ss.learn`: at every recorded episode it compares the learner's estimates, radii and values with the truth.

    threshold_ratio   thm:estimator2   largest error of a threshold's mean over its radius at scale 1 (i, h, t, pairs)
    bonus_ratio       F^r, F^g, F^p    largest error of a pair's model over its bonus in use
    nested_slack      F_pes, F_opt     smallest distance of a true episodic threshold from its bounds; < 0: outside
    optimism_slack    dual optimism    smallest optimistic value less the true value of the policy, of r and all g
    zeta_sum          lem:gw-sum       sum of the threshold radii in use
    window_sum        lem:gw-sum       sum of E 1 / sqrt(windowed count) of the pairs that the policy visits
    phi_sum           lem:policy errors-truncated   sum of E min(H-h+1, 2 phi) of these pairs
    mirror_sum        lem:OMD          sum of E <Q_t, pi* - pi_t> along an optimal policy pi*
    first_feasible    asp-2            the first episode whose pessimistic thresholds leave a margin; 0: none yet

Ratios, slacks and `first_feasible` are taken at recorded episodes, so that ``record="all"`` misses nothing and a grid
may miss the worst. Sums are exact with ``record="all"``; on a grid they follow the trapezoidal rule between recorded
episodes. Expectations are exact, under the policy in the true model. Everything is in inside units.
"""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor

import numpy as np

import safespot as ss
from safespot.arrays import Float
from safespot.experiments.settings import make_learner, read_setting
from safespot.spot.optimism import bernstein_radius, bonus, threshold_deviation, transition_radius

COLUMNS = (
    "threshold_ratio", "bonus_ratio", "nested_slack", "optimism_slack", "zeta_sum", "window_sum",
    "phi_sum", "mirror_sum", "first_feasible",
)  # fmt: skip


class Audit:
    """A callback of `ss.learn` that keeps a row of `COLUMNS` for each recorded episode."""

    def __init__(self, problem: ss.Problem, learner: ss.Spot) -> None:
        cmdp = problem.cmdp
        H, S, A = cmdp.H, cmdp.S, cmdp.A
        self.cmdp = cmdp
        self.transitions = np.broadcast_to(cmdp.model.P.dense, (H, S * A, S))
        self.payoffs = np.broadcast_to(cmdp.model.payoffs, (1 + cmdp.m, H, S * A))
        self.limits = cmdp.model.alpha.sum(axis=1)
        self.margins = ss.slater(cmdp).margins / np.abs(cmdp.units.constraints.scale)
        self.best = self._occupancy(np.array(ss.solve(cmdp).policy))
        self.now = dict.fromkeys(COLUMNS, 0.0) | {"nested_slack": np.inf, "optimism_slack": np.inf}
        self.rows: list[dict[str, float]] = []
        self.last = 0  # the episode of the newest row
        self.mirror = math.nan  # <Q, pi* - pi> of that episode
        self.ahead = self._sums(learner)  # of the episode after it

    def columns(self) -> dict[str, Float]:
        """Return each column, ``[recorded episodes]``."""
        return {name: np.array([row[name] for row in self.rows]) for name in COLUMNS}

    def __call__(self, record: ss.training.Recorded) -> None:
        """Add the row of a recorded episode."""
        learner, now, skipped = record.learner, self.now, record.episode - self.last - 1
        assert isinstance(learner, ss.Spot)
        ahead, mirror = self._sums(learner), self._mirror(learner)
        # Episodes self.last+1 .. t: the first of them is known, and so is t+1.
        for name, first in self.ahead.items():
            slope = (ahead[name] - first) / (skipped + 1)
            now[name] += (skipped + 1) * (first + slope * skipped / 2.0)
        if skipped:
            now["mirror_sum"] += skipped * (self.mirror + mirror) / 2.0
        now["mirror_sum"] += mirror
        self._compare(learner, record)
        self.last, self.mirror, self.ahead = record.episode, mirror, ahead
        self.rows.append(dict(now))

    def _compare(self, learner: ss.Spot, record: ss.training.Recorded) -> None:
        cmdp, state, now = self.cmdp, learner.state, self.now
        truth = np.r_[
            cmdp.units.reward.total_inside(record.value, cmdp.H),
            cmdp.units.constraints.total_inside(record.constraint_values, cmdp.H),
        ]
        optimism = ((cmdp.H - state.scratch.gap) - truth).min()
        now["optimism_slack"] = min(now["optimism_slack"], float(optimism))
        if learner.rates.learned:
            now["threshold_ratio"] = max(now["threshold_ratio"], self._threshold_ratio(learner))
        above = state.upper - self.limits
        now["nested_slack"] = min(
            now["nested_slack"], float(np.minimum(self.limits - state.lower, above).min())
        )
        if not now["first_feasible"] and (above < self.margins).all():
            now["first_feasible"] = record.episode + 1.0
        now["bonus_ratio"] = max(now["bonus_ratio"], self._bonus_ratio(learner))

    def _threshold_ratio(self, learner: ss.Spot) -> float:
        """Return the largest ``|alpha_hat - alpha|`` over its radius at scale 1."""
        n, window = learner.window.n, learner.window  # [H, S*A], or [H, 1] where pooled
        visited = n > 0
        means = (window.sums + window.carries)[:, visited] / n[visited]
        errors = np.abs(means - self.cmdp.model.alpha[:, np.nonzero(visited)[0]]).max(axis=0)
        one = threshold_deviation(learner.rates.radii, 1.0)
        return float((errors * np.sqrt(n[visited])).max(initial=0.0) / one)

    def _bonus_ratio(self, learner: ss.Spot) -> float:
        """Return the largest ``max_v |v_hat - v| + (H-h)/2 ||p_hat - p||_1`` (note 8) over its bonus."""
        statistics, H = learner.statistics, self.cmdp.H
        visited = statistics.n > 0
        n, steps = statistics.n[visited], np.nonzero(visited)[0]
        p_hat = np.moveaxis(statistics.successors.dense, 1, 2)[visited] / n[:, None]
        error = np.abs(statistics.sums[:, visited] / n - self.payoffs[:, visited]).max(axis=0)
        apart = np.abs(p_hat - self.transitions[visited]).sum(axis=1)
        need = error + (H - 1 - steps) / 2.0 * apart
        return float((need / self._bonuses(learner)[visited]).max(initial=0.0))

    def _bonuses(self, learner: ss.Spot) -> Float:
        """Return phi of every pair ``[H, S*A]``; infinite where there is too little data (D8)."""
        radii, statistics = learner.rates.radii, learner.statistics
        phi = np.full(statistics.n.shape, np.inf)
        for h, pair in np.argwhere(statistics.n > int(radii.bernstein)):
            n = float(statistics.n[h, pair])
            transition = transition_radius(radii, n)
            if radii.bernstein:
                counts = statistics.successors.dense[h, :, pair]
                total = sum(bernstein_radius(radii, n, count) for count in counts.tolist())
                transition = min(transition, radii.H * total)
            phi[h, pair] = bonus(radii, n, transition)
        return phi

    def _sums(self, learner: ss.Spot) -> dict[str, float]:
        """Return what the coming episode adds to the sums that carry the rate."""
        radii, n = learner.rates.radii, learner.window.n
        visits = self._occupancy(learner.state.pi)
        most = n.max(axis=1)  # of the representative pairs
        zeta = (
            radii.threshold_scale * threshold_deviation(radii, 1.0) / np.sqrt(np.maximum(most, 1))
        )
        remaining = np.arange(self.cmdp.H, 0, -1.0)[:, None]
        phi = float((visits * np.minimum(remaining, 2.0 * self._bonuses(learner))).sum())
        if learner.rates.start == self.cmdp.S:  # D5: a learned start is one more step
            finished = learner.episode - 1
            phi_0 = radii.bonus_scale * transition_radius(radii, max(1.0, float(finished)))
            phi += min(float(self.cmdp.H), 2.0 * phi_0) if finished else float(self.cmdp.H)
        return {
            "zeta_sum": float(np.where(most > 0, np.minimum(zeta, 1.0), 1.0).sum()),
            "window_sum": float((visits / np.sqrt(np.maximum(n, 1))).sum()),
            "phi_sum": phi,
        }

    def _mirror(self, learner: ss.Spot) -> float:
        """Return ``E <Q_t, pi* - pi_t>``; Q is known but for what the actions of a state share, which cancels."""
        state, shape = learner.state, learner.state.pi.shape
        Q = state.scratch.Q.reshape(shape)
        # The learner holds pi_{t+1}, which is pi_t exp(eta Q_t) up to its norm.
        before = np.where(state.pi > 0.0, state.pi * np.exp(-learner.rates.eta * Q), 0.0)
        before /= before.sum(axis=2, keepdims=True)
        best = self.best.reshape(shape)
        return float(((best - best.sum(axis=2, keepdims=True) * before) * Q).sum())

    def _occupancy(self, policy: Float) -> Float:
        """Return how likely a policy visits a pair at a step of the true model, ``[H, S*A]``."""
        visits = np.zeros(self.transitions.shape[:2])
        states = self.cmdp.model.start
        for h, pi in enumerate(policy):
            visits[h] = (states[:, None] * pi).ravel()
            states = visits[h] @ self.transitions[h]
        return visits


def audit_runs(store: ss.experiments.Store, runs: Iterable[ss.experiments.RunSpec]) -> None:
    """Repeat the finished runs under an audit, and keep its columns in the store's folder ``audits``."""
    folder = store.path / "audits"
    folder.mkdir(exist_ok=True)
    missing = {
        run.id: run
        for run in runs
        if store.is_finished(run.id) and not (folder / f"{run.id}.npz").exists()
    }
    longest_first = sorted(missing.values(), key=lambda run: -run.episodes)
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        for run, columns in zip(longest_first, pool.map(_audit, longest_first), strict=True):
            partial = folder / f"{run.id}.partial.npz"
            np.savez(partial, **columns)  # type: ignore[arg-type]  # its flags are no columns
            partial.rename(folder / f"{run.id}.npz")


def _audit(run: ss.experiments.RunSpec) -> dict[str, Float]:
    setting, learner = read_setting(run.setting), make_learner(run)
    assert isinstance(learner, ss.Spot)
    audit = Audit(setting.problem, learner)
    ss.learn(
        setting.problem, learner, seed=run.seed, record=run.record, track="grid", callback=audit
    )
    return audit.columns()
