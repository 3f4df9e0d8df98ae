"""The safety meter inside a run: every episode is counted and added up, and bounds are read on the recorded grid."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Bool, Float, InsideEpisode, Int, Policy, frozen
from ..evidence.meter import (
    Evidence,
    MeterState,
    SafetyMeter,
    as_evidence,
    meter_episode,
    meter_levels,
    read_meter,
)
from ..kernels.jit import inlined
from ..signals.totals import Declared, add_sums, sums_fit

MOST_SUMS = 2**20  # episodes of a run whose sums are kept


class EpisodeSums(NamedTuple):
    """Sums of a run's episodes, and where its policy moved: what a certificate of it reads."""

    totals: Float  # [n, 2+4m], see `signals.totals`
    moved: Bool  # [n+1]: whether an episode's policy was another one than before; at last, whether the coming one is


class Metering(NamedTuple):
    """A meter, and what it showed at every episode of the grid."""

    checked: bool  # whether totals were declared, so that an episode may lie outside
    declared: Declared
    state: MeterState
    levels: Float  # [2+2m]: ln(1/share)
    row: Float  # [2+4m]: these two are buffers
    x: Float  # [2+2m]
    rows: Float  # [grid, 2+2m]: bounds of sums
    sums: EpisodeSums  # of the first episodes, as many as there is room for


def make_metering(meter: SafetyMeter, grid: int, *, checked: bool, sums: int) -> Metering:
    """Make a meter with room for that many recorded episodes, and for that many sums."""
    m, sums = meter.terms.m, sums if sums <= MOST_SUMS else 0
    rows = 2 + 2 * m
    return Metering(
        checked=checked,
        declared=meter.terms.declared,
        state=meter.state,
        levels=meter_levels(m, meter.delta),
        row=np.zeros(2 + 4 * m),
        x=np.zeros(rows),
        rows=np.zeros((grid, rows)),
        sums=EpisodeSums(np.zeros((sums, 2 + 4 * m)), np.zeros(sums + 1, np.bool_)),
    )


@inlined
def add_up(metering: Metering, episode: InsideEpisode) -> bool:
    """Add up an episode into ``metering.row``; return whether its totals lie where they were declared to."""
    add_sums(episode.rewards, episode.constraints, episode.thresholds, metering.row)
    return not metering.checked or sums_fit(metering.declared, metering.row)


@inlined
def count_episode(metering: Metering, row: int, recorded: bool) -> None:
    """Count the episode that was added up; `recorded`: read the bounds into the row of this number."""
    n = int(metering.state.means.counted[0])
    if n < metering.sums.totals.shape[0]:
        for k in range(metering.row.shape[0]):
            metering.sums.totals[n, k] = metering.row[k]
    meter_episode(metering.declared, metering.state, metering.row, metering.x)
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
    """Return the meter's readings from number `first` on, which were made at `episodes` ``[.]``."""
    rows = metering.rows[first : first + len(episodes)]
    return as_evidence(meter, episodes, rows)
