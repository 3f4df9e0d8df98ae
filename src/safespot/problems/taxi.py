"""Deliver Gymnasium's taxi passenger on a limited tank.

The town is Gymnasium's own ``Taxi-v4``, read from its table. A state is the taxi's square, where the passenger
is (one of four stands, or in the taxi) and where they want to go: 500 states, numbered as Gymnasium does. One
more, the last, is where the episode waits after the delivery. Actions: 0 south, 1 north, 2 east, 3 west, 4 pick
up, 5 drop off. An episode starts in one of the 300 states with a waiting passenger, all equally likely. A
delivery pays 1; each of the four moves burns 1 of fuel, even against a wall:

    V_r = P(deliver within H steps),   V_fuel = E(moves within H steps) <= fuel.

After the delivery nothing more is paid or burnt. Rewards are ours (Gymnasium pays -1 a step, -10 for a mistake
and 20 for the delivery), and so are the fuel limit and its noisy signal, a 0 or 1 at every step with mean fuel
/ H.

With H = 20 every passenger can be delivered, **1 without a limit**; on 8 of fuel the best is **3073/3900 =
0.787949**, with a **multiplier of 1/13**. The limit holds on average over the starts, so the best policy leaves
the most distant passengers standing. A taxi that never moves keeps the whole 8 as its margin.
"""

from __future__ import annotations

from ..model.outcome_tables import Ending, problem_from_table
from ..model.problem import Problem
from ..signals.limits import Limit


def make(horizon: int = 20, fuel: float = 8.0) -> Problem:
    """Make the problem; `horizon` is the number of steps, `fuel` the moves allowed on average over an episode."""
    from gymnasium.envs.toy_text import TaxiEnv  # heavy

    town = TaxiEnv()
    return problem_from_table(
        town,
        horizon=horizon,
        rewards=lambda outcome: outcome.ended,
        constraints=lambda outcome: outcome.action < 4,
        limits=Limit("fuel", "<=", threshold=fuel, unit="moves an episode"),
        endings=Ending(reward=0, constraints=0),
        state_names=[_name(*town.decode(s)) for s in range(500)],
        action_names=["south", "north", "east", "west", "pick up", "drop off"],
        units={"reward": "probability of delivery"},
    )


def _name(row: int, column: int, passenger: int, destination: int) -> str:
    """Return the name of a state, whose parts Gymnasium numbers."""
    stands = ("red", "green", "yellow", "blue", "in the taxi")
    return f"taxi {row}/{column}, passenger {stands[passenger]}, to {stands[destination]}"
