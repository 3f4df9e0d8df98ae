"""OptPrimalDual-CMDP (Efroni, Mannor, Pirotta 2020, "Exploration-exploitation in constrained MDPs").

Optimistic primal-dual policy optimization for limits that are known. SPOT is this step with a learned threshold, so
`Spot` with known thresholds is this learner, and this learner without them is `Spot`.

Deviations from that paper, all of them SPOT's readings (docs/deviations.md): the bonus and its constants (D3), the
count that radii use (D1), unvisited pairs at their cap (D8), a learned start distribution (D5), action masks (D6).
"""

from __future__ import annotations

from ..spot import Spot


class OptPrimalDual(Spot):
    """The step of SPOT under a name of its own, for known thresholds. Weak regret and violation of order sqrt(T).

    Examples:
        >>> import safespot as ss
        >>> problem = ss.problems.make("machine")
        >>> learner = ss.learners.OptPrimalDual(
        ...     **problem.interface, episodes=500, thresholds=[1.0], slack=1.0, bonus_scale=0.01
        ... )
        >>> run = ss.learn(problem, learner)
        >>> print(learner.thresholds, run.values[-1].round(1), run.constraint_values[-1].round(1))
        [1.] 9.0 [0.4]

    """

    name = "opt-primal-dual"
