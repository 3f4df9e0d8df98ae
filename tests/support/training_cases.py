"""Problems and learners that training is tested on."""

from __future__ import annotations

from typing import Any

import numpy as np

import safespot as ss

Options = dict[str, Any]
LAWS: list[Any] = [
    ss.signals.Bernoulli(),
    ss.signals.Beta(3.0),
    ss.signals.Gaussian(0.2),
    ss.signals.Deterministic(),
]
STEP = ss.signals.Drift([0.9, 2.1], first=40)
LINEAR = ss.signals.Drift([0.9, 2.1], first=20, last=36)
COSTLY = ss.signals.Drift([10.5, 36.3], first=30, last=46)


def noisy(law: Any, drift: ss.signals.Drift | None = None) -> ss.signals.Signals:
    return ss.signals.Signals(law, law, law, drift)


# name -> (the problem's options, the learner's)
CASES: dict[str, tuple[Options, Options]] = {
    "plain": ({}, {}),
    "steps": ({"steps": True, "alpha": 0.9}, {"stance": "optimistic"}),
    "sparse": ({"sparse": True}, {"stance": 0.3}),
    "sparse steps": ({"sparse": True, "steps": True}, {"policy_step": 0.1}),
    "beta": ({"signals": noisy(LAWS[1])}, {}),
    "gaussian": ({"signals": noisy(LAWS[2])}, {}),
    "deterministic": ({"signals": noisy(LAWS[3])}, {}),
    "mixed laws": ({"signals": ss.signals.Signals(LAWS[2], LAWS[3], LAWS[1])}, {"window": 0.4}),
    "step drift": ({"signals": noisy(LAWS[0], STEP)}, {"window": 0.2}),
    "linear drift": ({"signals": noisy(LAWS[2], LINEAR)}, {"window": 0.2}),
    "units": ({"units": True}, {}),
    "units, beta, drift": ({"units": True, "signals": noisy(LAWS[1], COSTLY)}, {"window": 0.3}),
    "units, sparse, gaussian": (
        {"units": True, "sparse": True, "steps": True, "signals": noisy(LAWS[2]), "alpha": 0.9},
        {"stance": 0.7},
    ),
    "start": ({"start": [0.3, 0.0, 0.6, 0.1]}, {"dual_step": 0.2}),
    "another start": ({"start": 2}, {}),
    "mask": ({"mask": "states"}, {"slack": 0.5, "rho": None}),
    "mild mask": ({"mask": "states", "alpha": 0.2}, {}),
    "mask of steps": ({"mask": "steps", "steps": True, "start": [0.5, 0.5, 0.0, 0.0]}, {}),
    "growing ring": ({}, {"window": 0.9}),
    "short ring": ({}, {"window": 0.01}),
    "bernstein": ({}, {"bonus": "bernstein", "bonus_scale": 0.005}),
    "pooled": ({}, {"estimator": "pooled", "window": 0.5}),
    "known": ({}, {"thresholds": [2.5, 2.6]}),
    "known in units": ({"units": True}, {"thresholds": [2.5, 37.8]}),
    "unclipped": ({}, {"clip_thresholds": False, "threshold_scale": 1.0}),
    "one sided": ({}, {"rho": np.inf, "policy_step": 0.1, "dual_step": 0.1}),
}


def learned(problem: ss.Problem, learner: ss.Spot) -> bool:
    uniform = problem.cmdp.model.mask.reshape(-1, problem.cmdp.S, problem.cmdp.A)
    even = np.broadcast_to(uniform / uniform.sum(axis=2, keepdims=True), learner.policy.shape)
    return bool(np.abs(learner.policy - even).max() > 0.01)
