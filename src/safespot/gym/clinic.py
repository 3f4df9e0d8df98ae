"""The patients of `dosing` themselves, as a Gymnasium environment: differential equations, no table anywhere.

A reset admits a new patient; a step treats for a block of two days (`problems.dosing.tumor`). The doctor sees the
tumor and the drug left in the blood as they are: how they are cut into states is up to a discretizer. `info["cost"]` is
the dose, `info["threshold"]` a biomarker's hint at the block's share of the tolerance. Death terminates; what the
blocks after it cost is for the learner's user to declare (deviation D7).
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from ..problems.dosing import BLOCKS, DOSES, SHARE
from ..problems.dosing.tumor import LETHAL, Body, Patient, admit, dead, treat

HINTS = 0.2  # how far biomarkers are off, a standard deviation


class Clinic(gymnasium.Env[Any, Any]):
    """An environment of one patient after the other; a course of treatment has `BLOCKS` blocks.

    `tolerance` is in full doses over such a course, 6 by default.

    Examples:
        >>> import safespot as ss
        >>> env = ss.gym.Clinic(tolerance=6)
        >>> (tumor, drug), _ = env.reset(seed=0)
        >>> _, health, died, _, info = env.step(4)  # a full dose
        >>> print(drug, died, info["cost"])
        0.0 False 1.0

    """

    observation_space: Any = spaces.Box(
        low=np.zeros(2), high=np.array([np.inf, 1.0]), dtype=np.float64
    )
    action_space: Any = spaces.Discrete(len(DOSES))
    patient: Patient
    body: Body

    def __init__(self, tolerance: float = SHARE * BLOCKS) -> None:
        self.share = tolerance / BLOCKS

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Admit the next patient."""
        super().reset(seed=seed)
        self.patient, self.body = admit(self.np_random)
        return self._seen(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Treat for a block."""
        dose = DOSES[action]
        self.body, health = treat(self.patient, self.body, dose, self.np_random)
        # Cut off symmetrically, so that the hint is right on average.
        room = min(self.share, 1.0 - self.share)
        error = min(max(HINTS * self.np_random.standard_normal(), -room), room)
        info = {"cost": dose, "threshold": self.share + error}
        return self._seen(), health, dead(self.body), False, info

    def _seen(self) -> Any:
        return np.array([min(self.body.tumor, LETHAL), self.body.drug])
