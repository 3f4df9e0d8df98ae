"""The audit against a reference implementation that keeps every episode and knows the paper's formulas alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from studies.claims.audit import COLUMNS, Audit

import safespot as ss
from safespot.reference import ReferenceSpot

TOLERANCE = 1e-9


class Reference:
    """Plays by hand and sums up what the lemmas speak of, from all episodes anew each time."""

    def __init__(self, problem: ss.Problem, options: dict[str, Any], T: int) -> None:
        self.problem, self.T = problem, T
        c = self.cmdp = problem.cmdp
        self.learner = ss.Spot(**problem.interface, episodes=T, **options)
        sizes = ("states", "actions", "horizon", "constraints", "start")
        known = {name: problem.interface[name] for name in sizes}
        self.slow: Any = ReferenceSpot(**known, episodes=T, **options)
        self.history: list[ss.Episode] = []
        self.p = np.broadcast_to(c.model.P.dense, (c.H, c.S * c.A, c.S))
        self.v = np.broadcast_to(c.model.payoffs, (1 + c.m, c.H, c.S * c.A))
        self.L = math.log(c.m * c.S * c.A * c.H * T / 0.05)
        self.best = self.occupancy(ss.solve(c).policy)
        self.found = dict.fromkeys(COLUMNS, 0.0)
        self.found["nested_slack"] = self.found["optimism_slack"] = math.inf

    def occupancy(self, pi: Any) -> Any:
        c = self.cmdp
        q, now = np.zeros((c.H, c.S, c.A)), c.model.start
        for h in range(c.H):
            q[h] = now[:, None] * pi[h]
            now = q[h].ravel() @ self.p[h]
        return q

    def window(self) -> list[ss.Episode]:
        n = len(self.history)
        W = max(1, math.floor(self.learner.options.window * n))
        return self.history[max(0, n - W) :]

    def samples(self, h: int, pair: int) -> list[Any]:
        A = self.cmdp.A
        return [e.thresholds[h] for e in self.window() if e.states[h] * A + e.actions[h] == pair]

    def phi(self, h: int, pair: int) -> float:
        s, a = divmod(pair, self.cmdp.A)
        return float(self.slow._phi(h, s, a)) if self.slow.count[h, s, a] else math.inf

    def before(self) -> None:
        c, f = self.cmdp, self.found
        pi = self.learner.policy
        q = self.occupancy(pi).reshape(c.H, -1)
        Q, V_g = self.slow._evaluate()
        for h in range(c.H):
            counts = [len(self.samples(h, pair)) for pair in range(c.S * c.A)]
            most = max(counts)
            scale = self.learner.options.threshold_scale
            f["zeta_sum"] += min(1.0, scale * math.sqrt(4 * self.L / most)) if most else 1.0
            for pair, n in enumerate(counts):
                f["window_sum"] += q[h, pair] / math.sqrt(max(1, n))
                f["phi_sum"] += q[h, pair] * min(c.H - h, 2 * self.phi(h, pair))
            there = self.best[h].sum(axis=1, keepdims=True)
            f["mirror_sum"] += float((Q[h] * (self.best[h] - there * pi[h])).sum())
        V_g_true = ss.evaluate(c, pi).constraints
        f["optimism_slack"] = min(f["optimism_slack"], float((V_g - V_g_true).min()))
        f["optimism_slack"] = min(f["optimism_slack"], self.reward_slack(pi))

    def reward_slack(self, pi: Any) -> float:
        """The optimistic value of the reward, by its own recursion, less the true one."""
        c, V = self.cmdp, np.zeros(self.cmdp.S)
        for h in reversed(range(c.H)):
            Q = np.full((c.S, c.A), float(c.H - h))
            for s in range(c.S):
                for a in range(c.A):
                    n = self.slow.count[h, s, a]
                    if n:
                        p_hat = self.slow.next_count[h, s, a] / n
                        mean = self.slow.signal_sum[0, h, s, a] / n
                        Q[s, a] = min(c.H - h, mean + self.slow._phi(h, s, a) + p_hat @ V)
            V = (pi[h] * Q).sum(axis=1)
        return float(c.model.start @ V - ss.evaluate(c, pi).value)

    def after(self, episode: ss.Episode) -> None:
        c, f = self.cmdp, self.found
        self.history.append(episode)
        self.learner.observe(episode)
        e = episode
        self.slow.observe(e.states, e.actions, e.rewards, e.constraints, e.thresholds)
        for h in range(c.H):
            for pair in range(c.S * c.A):
                if seen := self.samples(h, pair):
                    error = abs(np.mean(seen, axis=0) - c.model.alpha[:, h]).max()
                    ratio = error / math.sqrt(4 * self.L / len(seen))
                    f["threshold_ratio"] = max(f["threshold_ratio"], float(ratio))
                s, a = divmod(pair, c.A)
                if n := self.slow.count[h, s, a]:
                    off = abs(self.slow.signal_sum[:, h, s, a] / n - self.v[:, h, pair]).max()
                    apart = abs(self.slow.next_count[h, s, a] / n - self.p[h, pair]).sum()
                    need = off + (c.H - 1 - h) / 2 * apart
                    f["bonus_ratio"] = max(f["bonus_ratio"], float(need / self.phi(h, pair)))
        lower, upper = self.learner.threshold_bounds
        room = np.minimum(c.limits - lower, upper - c.limits).min()
        f["nested_slack"] = min(f["nested_slack"], float(room))
        if not f["first_feasible"] and (upper - c.limits < ss.slater(c).margins).all():
            f["first_feasible"] = float(self.learner.episode)


@pytest.mark.parametrize(
    ("constraints", "options"),
    [
        (1, {"stance": 0.0}),
        (2, {"stance": 1.0, "window": 0.4, "bonus_scale": 0.05, "threshold_scale": 0.1}),
        (1, {"bonus": "bernstein", "bonus_scale": 0.05, "threshold_scale": 0.05}),
    ],
)
def test_every_column_is_what_the_reference_finds(
    constraints: int, options: dict[str, Any]
) -> None:
    T = 90
    problem = ss.problems.make("random", states=2, actions=2, horizon=2, constraints=constraints)
    options = {"rho": 2.0, **options}
    reference = Reference(problem, options, T)
    streams = ss.streams(3)
    rows = []
    for t in range(1, T + 1):
        reference.before()
        reference.after(ss.play(problem, reference.learner.policy, streams, t))
        rows.append(dict(reference.found))
    learner = ss.Spot(**problem.interface, episodes=T, **options)
    audit = Audit(problem, learner)
    ss.learn(problem, learner, seed=3, record="all", callback=audit)
    found = audit.columns()
    for name in COLUMNS:
        want = [row[name] for row in rows]
        np.testing.assert_allclose(found[name], want, rtol=TOLERANCE, atol=TOLERANCE)
    assert found["threshold_ratio"][-1] > 0.05  # something was there to be seen
    if options.get("bonus_scale"):
        assert found["mirror_sum"][-1] != 0.0
        assert found["first_feasible"][-1] > 0.0


def test_sums_on_a_grid_are_close_to_those_of_every_episode() -> None:
    problem = ss.problems.make("machine")
    columns = []
    for record in ("all", "log"):
        learner = ss.Spot(**problem.interface, episodes=3000, rho=2.4, bonus_scale=0.05)
        audit = Audit(problem, learner)
        ss.learn(problem, learner, seed=1, record=record, callback=audit)
        columns.append(audit.columns())
    for name in ("zeta_sum", "window_sum", "phi_sum", "mirror_sum"):
        assert columns[1][name][-1] == pytest.approx(columns[0][name][-1], rel=0.01)
    assert columns[1]["nested_slack"][-1] >= columns[0]["nested_slack"][-1]


def test_a_learned_start_adds_its_part_to_the_bonuses() -> None:
    """D5: H in the first episode, then min(H, 2 phi_0)."""
    made = ss.problems.make("bandit").cmdp
    cmdp = ss.CMDP(
        np.ones((2, 2, 2)) / 2, np.ones((2, 2)) / 2, np.ones((1, 2, 2)) / 2, [0.25],
        start=[0.5, 0.5], horizon=1,
    )  # fmt: skip
    T = 40
    sums = []
    for problem in (ss.Problem(made), ss.Problem(cmdp)):
        learner = ss.Spot(**problem.interface, episodes=T, rho=1.0)
        audit = Audit(problem, learner)
        ss.learn(problem, learner, record="all", callback=audit)
        sums.append(audit.columns()["phi_sum"])
    assert sums[0][0] == 1.0  # one step, at its cap
    assert sums[1][0] == 2.0  # the start, at its cap, and the step
    assert sums[1][-1] == pytest.approx(2.0 * T)  # radii are above 1/2 for so few
