"""Laws of observed rewards, constraints and thresholds: noise, drift, and the Problem.

Every signal lies in [0,1] inside and has exactly the CMDP's mean:

- `Bernoulli`: 1 with probability `mean`, else 0.
- `Beta`: Beta(c·mean, c·(1 - mean)) with concentration c; at a mean of 0 or 1 it is constant.
- `Gaussian`: mean + clip(sd·z, -d, d) with z standard normal and d = min(mean, 1 - mean). The noise is
  symmetric and is clipped symmetrically, so its mean stays zero and the signal stays in [0,1].
- `Deterministic`: the mean itself.
- `ByOutcome`, for constraints: 1 with a probability that depends on the next state too, so that a fall is counted in
  the step that falls, and in no other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Float, as_count, as_floats, frozen
from ..display import Displayed
from ..errors import InvalidModel
from ..kernels.jit import inlined, kernel

BERNOULLI, BETA, GAUSSIAN, DETERMINISTIC = range(4)


@dataclass(frozen=True)
class Bernoulli(Displayed):
    """1 with probability `mean`, else 0: the noisiest signal in [0,1].

    Examples:
        >>> import safespot as ss
        >>> problem = ss.Problem(ss.problems.make("bandit").cmdp, ss.signals.Signals(rewards=ss.signals.Bernoulli()))
        >>> noise, safe = ss.streams(seed=0), [[0, 1]]  # which pays 2/5 on average
        >>> [float(ss.play(problem, safe, noise, t).rewards[0]) for t in range(1, 6)]
        [1.0, 0.0, 0.0, 1.0, 1.0]

    """

    code, parameter = BERNOULLI, 0.0


@dataclass(frozen=True)
class Beta(Displayed):
    """Beta(c·mean, c·(1 - mean)); its variance is mean·(1 - mean) / (1 + concentration).

    Examples:
        >>> import safespot as ss
        >>> problem = ss.Problem(ss.problems.make("bandit").cmdp, ss.signals.Signals(rewards=ss.signals.Beta(10_000)))
        >>> noise, safe = ss.streams(seed=0), [[0, 1]]  # which pays 2/5 on average
        >>> [round(float(ss.play(problem, safe, noise, t).rewards[0]), 1) for t in range(1, 6)]
        [0.4, 0.4, 0.4, 0.4, 0.4]

    """

    concentration: float = 10.0
    code = BETA

    def __post_init__(self) -> None:
        _check_positive("concentration", self.concentration)

    @property
    def parameter(self) -> float:
        """The concentration, as kernels take it."""
        return float(self.concentration)


@dataclass(frozen=True)
class Gaussian(Displayed):
    """mean + clip(sd·z, -d, d), d = min(mean, 1 - mean); `sd` is in units of the inside, [0,1].

    Examples:
        >>> import safespot as ss
        >>> signals = ss.signals.Signals(rewards=ss.signals.Gaussian(sd=0.005))
        >>> problem = ss.Problem(ss.problems.make("bandit").cmdp, signals)
        >>> noise, safe = ss.streams(seed=0), [[0, 1]]  # which pays 2/5 on average
        >>> [round(float(ss.play(problem, safe, noise, t).rewards[0]), 1) for t in range(1, 6)]
        [0.4, 0.4, 0.4, 0.4, 0.4]

    """

    sd: float = 0.1
    code = GAUSSIAN

    def __post_init__(self) -> None:
        _check_positive("sd", self.sd)

    @property
    def parameter(self) -> float:
        """The standard deviation, as kernels take it."""
        return float(self.sd)


@dataclass(frozen=True)
class Deterministic(Displayed):
    """The mean itself.

    Examples:
        >>> import safespot as ss
        >>> signals = ss.signals.Signals(rewards=ss.signals.Deterministic())
        >>> problem = ss.Problem(ss.problems.make("bandit").cmdp, signals)
        >>> noise, safe = ss.streams(seed=0), [[0, 1]]  # which pays 2/5 on average
        >>> [float(ss.play(problem, safe, noise, t).rewards[0]) for t in range(1, 6)]
        [0.4, 0.4, 0.4, 0.4, 0.4]

    """

    code, parameter = DETERMINISTIC, 0.0


@dataclass(frozen=True, eq=False)
class ByOutcome:
    """Constraint signals that depend on the outcome: Bernoulli with mean `means` ``[m,S,A,S]`` given the next state.

    `means` are in the user's units; averaged over the next states they must be the CMDP's.

    Examples:
        >>> import numpy as np
        >>> import safespot as ss
        >>> walk = np.array([[[0.9, 0.1]], [[0.0, 1.0]]])  # state 1 is a pit, for good
        >>> cmdp = ss.CMDP(walk, [[0.0], [0.0]], [[[0.1], [0.0]]], [0.5], senses="<=", horizon=5)
        >>> falls = np.zeros((1, 2, 1, 2))
        >>> falls[0, 0, 0, 1] = 1.0
        >>> problem = ss.Problem(cmdp, ss.signals.Signals(constraints=ss.signals.ByOutcome(falls)))
        >>> episode = ss.play(problem, [[1.0], [1.0]], ss.streams(seed=2), 1)
        >>> print(episode.states, episode.constraints[:, 0])
        [0 0 1 1 1 1] [0. 1. 0. 0. 0.]

    """

    means: Float
    code, parameter = BERNOULLI, 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "means", frozen(as_floats("means by outcome", self.means)))

    def __repr__(self) -> str:
        return "ByOutcome()"


Law: TypeAlias = Bernoulli | Beta | Gaussian | Deterministic


@dataclass(frozen=True, eq=False)
class Drift(Displayed):
    """Thresholds that move over the episodes, from the CMDP's to `thresholds`.

    Up to episode `first` (1-based) the CMDP's hold; from `last` on these do; in between they are
    interpolated linearly. Without `last` they change in one step: `first` is the first episode
    with the new ones.

    Examples:
        >>> import safespot as ss
        >>> drift = ss.signals.Drift(thresholds=[3.0], first=100, last=300)
        >>> problem = ss.Problem(ss.problems.make("machine").cmdp, ss.signals.Signals(drift=drift))
        >>> [drift.progress(t) for t in (100, 200, 400)]  # while the budget moves from 1 to 3
        [0.0, 0.5, 1.0]

    """

    thresholds: ArrayLike  # [m] or [m, H], in the user's terms
    first: int
    last: int | None = None

    def __post_init__(self) -> None:
        as_count("first", self.first, least=1)
        if self.last is not None:
            as_count("last", self.last, least=self.first + 1)

    def progress(self, episode: int) -> float:
        """Return the share of their way that the thresholds have moved by `episode`, from 0 to 1."""
        if self.last is None:
            return float(episode >= self.first)
        return min(1.0, max(0.0, (episode - self.first) / (self.last - self.first)))


@dataclass(frozen=True)
class Signals(Displayed):
    """The noise law of each kind of signal, and how the thresholds drift (None: they do not).

    Examples:
        >>> import safespot as ss
        >>> ss.signals.Signals(thresholds=ss.signals.Gaussian(sd=0.2))
        Signals(rewards=Bernoulli(), constraints=Bernoulli(), thresholds=Gaussian(sd=0.2), drift=None)

    """

    rewards: Law = Bernoulli()
    constraints: Law | ByOutcome = Bernoulli()
    thresholds: Law = Bernoulli()
    drift: Drift | None = None

    def __post_init__(self) -> None:
        for name in ("rewards", "constraints", "thresholds"):
            if name == "constraints" and isinstance(self.constraints, ByOutcome):
                continue
            if not isinstance(getattr(self, name), Law):
                raise InvalidModel(
                    f"the law of {name} must be Bernoulli(), Beta(), Gaussian() or "
                    f"Deterministic(), got {getattr(self, name)!r}."
                )
        if not isinstance(self.drift, Drift | None):
            raise InvalidModel(f"drift must be a Drift or None, got {self.drift!r}.")


def _check_positive(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise InvalidModel(f"{name} must be a number, got {value!r}.")
    if not 0.0 < float(value) < math.inf:
        raise InvalidModel(f"{name} must be positive and finite, got {value}.")


def fill_noise(law: Law | ByOutcome, rng: np.random.Generator, out: Float) -> None:
    """Draw what `signal` turns into observations; as many numbers whatever the means."""
    if law.code == GAUSSIAN:
        rng.standard_normal(out=out)
    elif law.code != DETERMINISTIC:
        rng.random(out=out)


@inlined
def signal(law: int, parameter: float, mean: float, z: float) -> float:
    """Return an observation with the given mean, from one random number z of `noise`."""
    if law == BERNOULLI:
        return 1.0 if z < mean else 0.0
    if law == GAUSSIAN:
        room = min(mean, 1.0 - mean)
        return mean + min(max(parameter * z, -room), room)
    a, b = parameter * mean, parameter * (1.0 - mean)
    if law == BETA and min(a, b) > 0.0:  # else the mean is an end of [0,1], or next to it
        return beta_quantile(a, b, z)
    return mean


@kernel
def beta_quantile(a: float, b: float, u: float) -> float:
    """Return the x in [0,1] with I_x(a, b) = u, by bisection to the last bit of a double near one half."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if beta_cdf(a, b, middle) < u:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


@kernel
def beta_cdf(a: float, b: float, x: float) -> float:
    """Compute the regularized incomplete beta function I_x(a, b), by Lentz' continued fraction.

    The fraction (Abramowitz and Stegun 26.5.8) converges fast for x < (a + 1) / (a + b + 2); the
    rest follows from I_x(a, b) = 1 - I_{1-x}(b, a).
    """
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    flip = x > (a + 1.0) / (a + b + 2.0)
    if flip:
        a, b, x = b, a, 1.0 - x
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
        + a * math.log(x) + b * math.log1p(-x)
    )  # fmt: skip
    tiny = 1e-300
    c, d = 1.0, 1.0 / max(1.0 - (a + b) * x / (a + 1.0), tiny)
    fraction = d
    for k in range(1, 500):
        even = k * (b - k) * x / ((a + 2 * k - 1.0) * (a + 2 * k))
        odd = -(a + k) * (a + b + k) * x / ((a + 2 * k) * (a + 2 * k + 1.0))
        for term in (even, odd):
            d = 1.0 + term * d
            c = 1.0 + term / c
            d = 1.0 / (d if abs(d) > tiny else tiny)
            c = c if abs(c) > tiny else tiny
            fraction *= c * d
        if abs(c * d - 1.0) < 1e-16:
            break
    tail = front * fraction / a
    return 1.0 - tail if flip else tail
