"""Evaluation of a policy in an environment: sums of fresh episodes, their means, and standard errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Float, as_count, as_policy, frozen
from ..display import Displayed
from ..errors import InvalidOption
from ..model.simulation import streams
from ..names import Names
from ..signals.doubts import Doubts
from ..signals.interface import make_interface
from .black_box import BlackBox, as_box


@dataclass(frozen=True, eq=False, repr=False)
class PolicyEvaluation(Displayed):
    """Sums of the episodes of one policy; errors are standard errors of the means.

    Examples:
        >>> import safespot as ss
        >>> found = ss.gym.evaluate_policy(ss.gym.ProblemEnv("machine"), [[1, 0], [1, 0]], episodes=200)
        >>> print(found.rewards.shape, bool(abs(found.value - 8.0) < 4 * found.value_error))
        (200,) True

    """

    rewards: Float  # [n]: the sum of each episode
    constraint_sums: Float  # [n, m]
    names: Names
    doubts: tuple[str, ...] = ()  # sentences: why the means are not those of the world

    @property
    def value(self) -> float:
        """The mean reward of an episode."""
        return float(self.rewards.mean())

    @property
    def value_error(self) -> float:
        """The standard error of `value`."""
        return float(_error(self.rewards))

    @property
    def constraints(self) -> Float:
        """The means ``[m]`` of the constraints."""
        means: Float = self.constraint_sums.mean(axis=0)
        return means

    @property
    def constraint_errors(self) -> Float:
        """The standard errors ``[m]`` of `constraints`."""
        errors: Float = _error(self.constraint_sums)
        return errors

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "episodes": len(self.rewards),
            self.names.reward: f"{self.value:.4g} ± {self.value_error:.2g}",
        }
        for i, (mean, error) in enumerate(
            zip(self.constraints, self.constraint_errors, strict=True)
        ):
            facts[self.names.quantity(i)] = f"{mean:.4g} ± {error:.2g}"
        if self.doubts:
            facts["in doubt"] = "; ".join(self.doubts)
        return facts


def evaluate_policy(
    env: Any, policy: ArrayLike, episodes: int, seed: int = 0, **declarations: Any
) -> PolicyEvaluation:
    """Play a policy in an environment, and say what it earned and used.

    Args:
        env: a `BlackBox`, or an environment with the declarations of one. The horizon is the policy's where none is
            declared.
        policy: ``[H,S,A]`` or ``[S,A]``.
        episodes: how many.
        seed: of the first reset and of the actions.
        **declarations: of a `BlackBox`, where `env` is none.

    Nothing is learned, and nothing proven: `certify` does that with the same episodes.

    Examples:
        >>> import safespot as ss
        >>> env = ss.gym.ProblemEnv("machine")
        >>> ss.gym.evaluate_policy(env, [[1, 0], [1, 0]], episodes=200).constraints
        array([0.])

    """
    n = as_count("episodes", episodes, least=1, error=InvalidOption)
    if not isinstance(env, BlackBox) and np.ndim(policy) == 3:
        declarations = {"horizon": np.shape(policy)[0], **declarations}
    box = as_box(env, declarations)
    f = make_interface(**box.interface)
    pi = as_policy(policy, (f.H, f.S, f.A), f.mask)
    seed = as_count("seed", seed, least=0, error=InvalidOption)
    rng = streams(seed).actions
    played = [box.play(pi, rng.random(f.H), seed if t == 0 else None) for t in range(n)]
    return PolicyEvaluation(
        rewards=frozen(np.array([episode.rewards.sum() for episode in played])),
        constraint_sums=frozen(np.array([episode.constraints.sum(axis=0) for episode in played])),
        names=f.names,
        doubts=Doubts.of(played).sentences(),
    )


def _error(values: Float) -> Any:
    """Return the standard error of the mean over the first axis; NaN of a single episode."""
    if len(values) < 2:
        return np.full(values.shape[1:], np.nan)
    return values.std(axis=0, ddof=1) / np.sqrt(len(values))
