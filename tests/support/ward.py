"""A problem that nothing was tuned for: a ward with a drug that helps and harms."""

from __future__ import annotations

import numpy as np

import safespot as ss


def ward() -> ss.Problem:
    """Patients at home, mildly, severely or critically ill; a drug helps, and its side effects have a limit.

    Four states, three doses, six days; what is known of the limit, 1.4 an episode, are hints of one or zero.
    """
    better = np.array([[0.0, 0.0, 0.0], [0.15, 0.4, 0.55], [0.05, 0.3, 0.55], [0.02, 0.15, 0.4]])
    worse = np.array([[0.1, 0.1, 0.1], [0.35, 0.15, 0.1], [0.4, 0.2, 0.1], [0.0, 0.0, 0.0]])
    transitions = np.zeros((4, 3, 4))
    for s, a in np.ndindex(4, 3):
        for after, chance in (
            (s - 1, better[s, a]),
            (s + 1, worse[s, a]),
            (s, 1.0 - better[s, a] - worse[s, a]),
        ):
            transitions[s, a, min(max(after, 0), 3)] += chance
    rewards = np.repeat([[1.0], [0.7], [0.35], [0.0]], 3, axis=1)
    effects = [[0.02, 0.2, 0.5], [0.02, 0.2, 0.55], [0.05, 0.25, 0.6], [0.05, 0.3, 0.65]]
    cmdp = ss.CMDP(
        transitions, rewards, [effects], [1.4], start=[0.2, 0.4, 0.3, 0.1], senses="<=", horizon=6
    )
    return ss.Problem(cmdp)
