"""The safety meter inside the compiled loop: every episode is counted, and bounds are read on the recorded grid."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Float, InsideEpisode, Int
from ..evidence.differences import Declared
from ..evidence.meter import (
    Evidence,
    MeterState,
    SafetyMeter,
    as_evidence,
    meter_levels,
    meter_step,
    read_meter,
)
from ..kernels.jit import inlined


class Metering(NamedTuple):
    """A meter, and what it showed at every episode of the grid."""

    checked: bool  # whether totals were declared, so that an episode may lie outside
    declared: Declared
    state: MeterState
    levels: Float  # [2+2m]: ln(1/share)
    x: Float  # [2m]: a buffer
    rows: Float  # [grid, 2+2m]: bounds of sums


def make_metering(meter: SafetyMeter, grid: int, *, checked: bool) -> Metering:
    """A meter with room for so many recorded episodes."""
    rows = 2 + 2 * meter.interface.m
    return Metering(
        checked=checked,
        declared=meter.declared,
        state=meter.state,
        levels=meter_levels(meter.interface.m, meter.delta),
        x=np.zeros(rows - 2),
        rows=np.zeros((grid, rows)),
    )


@inlined
def count_episode(metering: Metering, episode: InsideEpisode, row: int, recorded: bool) -> None:
    """Count an episode; `recorded`: read the bounds into the row of this number."""
    meter_step(metering.declared, metering.state, episode, metering.x)
    if recorded:
        read_meter(metering.state, metering.levels, metering.rows[row])


def shown(metering: Metering, meter: SafetyMeter, episodes: Int, first: int = 0) -> Evidence:
    """What the meter showed when it had counted `episodes` ``[.]``: from its reading of that number on."""
    rows = metering.rows[first : first + len(episodes)]
    return as_evidence(meter, episodes, rows)
