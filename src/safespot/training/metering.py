"""The safety meter inside a run: every episode is counted and added up, and bounds are read on the recorded grid."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Bool, Float, InsideEpisode, Int, Policy, frozen
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
from ..evidence.statements import add_sums
from ..kernels.jit import inlined

MOST_SUMS = 2**20  # episodes of a run whose sums are kept


class EpisodeSums(NamedTuple):
    """Sums of a run's episodes, and where its policy moved: what a certificate of it reads."""

    totals: Float  # [n, 2+4m], see `evidence.statements.episode_sums`
    moved: Bool  # [n+1]: whether an episode's policy was another one than before; at last, whether the coming one is


class Metering(NamedTuple):
    """A meter, and what it showed at every episode of the grid."""

    checked: bool  # whether totals were declared, so that an episode may lie outside
    declared: Declared
    state: MeterState
    levels: Float  # [2+2m]: ln(1/share)
    x: Float  # [2m]: a buffer
    rows: Float  # [grid, 2+2m]: bounds of sums
    sums: EpisodeSums  # of the first episodes, as many as there is room for


def make_metering(meter: SafetyMeter, grid: int, *, checked: bool, sums: int) -> Metering:
    """A meter with room for so many recorded episodes, and for the sums of so many."""
    m, sums = meter.interface.m, sums if sums <= MOST_SUMS else 0
    rows = 2 + 2 * m
    return Metering(
        checked=checked,
        declared=meter.declared,
        state=meter.state,
        levels=meter_levels(meter.interface.m, meter.delta),
        x=np.zeros(rows - 2),
        rows=np.zeros((grid, rows)),
        sums=EpisodeSums(np.zeros((sums, 2 + 4 * m)), np.zeros(sums + 1, np.bool_)),
    )


@inlined
def count_episode(metering: Metering, episode: InsideEpisode, row: int, recorded: bool) -> None:
    """Count an episode; `recorded`: read the bounds into the row of this number."""
    n = int(metering.state.means.counted[0])
    if n < metering.sums.totals.shape[0]:
        sums = metering.sums.totals[n]
        add_sums(episode.rewards, episode.constraints, episode.thresholds, sums)
    meter_step(metering.declared, metering.state, episode, metering.x)
    if recorded:
        read_meter(metering.state, metering.levels, metering.rows[row])


@inlined
def mark_moved(metering: Metering) -> None:
    """Say that the coming episode's policy is another one than that of the last episode counted."""
    n = int(metering.state.means.counted[0])
    if n < metering.sums.moved.shape[0]:
        metering.sums.moved[n] = True


def compare_policies(metering: Metering, before: Policy, now: Policy) -> None:
    """Say so where `now`, of the coming episode, is not `before`."""
    if len(metering.sums.totals) and not np.array_equal(before, now):
        metering.sums.moved[int(metering.state.means.counted[0])] = True


def kept_sums(metering: Metering, played: int) -> EpisodeSums | None:
    """Return the sums of the episodes played; None where there was no room for them."""
    if len(metering.sums.totals) < played:
        return None
    totals, moved = metering.sums
    return EpisodeSums(frozen(totals[:played]), frozen(moved[: played + 1]))


def shown(metering: Metering, meter: SafetyMeter, episodes: Int, first: int = 0) -> Evidence:
    """What the meter showed when it had counted `episodes` ``[.]``: from its reading of that number on."""
    rows = metering.rows[first : first + len(episodes)]
    return as_evidence(meter, episodes, rows)
