"""Chemotherapy: shrink a tumor while the cumulative dose stays below a tolerance that nobody knows.

A course of treatment has 14 blocks of two days. At the start of each the doctor sees the size of the tumor
and the drug left in the blood, both in classes, and chooses one of five doses for the block. Which patients
there are and how they respond is the simulator's matter (`tumor`): its trajectories, counted by
`dosing.table`, are the transitions of this CMDP.

States. Tumor classes of width 0.05 up to the lethal 0.4, times three classes of drug (parted at 0.15 and
0.45), tumor first: `tumor class * 3 + drug class`; the last state is **death**, which is absorbing.
S = 25.

Actions. 0, 1/4, 1/2, 3/4 or all of the full dose rate. A = 5.

Reward. The patient's mean health over the block: 1 without a tumor, 0 at the lethal one; a dead patient's is
0. So the value of a policy is measured in blocks of full health.

The limit, in the doctor's terms. Each block costs its dose, in full doses; summed over the course it must
stay at or below the **tolerance**: sense ``<=``. A dead patient costs a full dose in every block that is
left: death must never look like a way to save doses. (Inside that is g = 1 - dose and g = 0 for the dead,
with V_g >= alpha = H - tolerance.) Like every limit of a CMDP it holds on average over patients.

The hints. The tolerance is unknown. In each block biomarkers hint at that block's share of it, tolerance / H,
with noise. How biomarkers show a tolerance is our assumption; the equations say nothing of it.

With the default **tolerance of 6: V* = 7.7525, multiplier 0.3762**; the safest policy leaves a margin of
1.8591 doses, and rho is 2.7294. Without a limit 8.1890 is best, at a cost of 10.35 doses. Never treating is
worth 4.70 and loses 64 % of the patients, the constrained optimum 21 %.

Not quite Markov. Normal cells, immune cells and the patient's own constants are hidden behind the classes, so
how a patient goes on depends on more than the state. The CMDP has the transitions that a patient in a state
makes on average under doses at random. A policy treats actual patients somewhat differently from what its
value says; docs/dosing.md says by how much.
"""

from __future__ import annotations

import functools
from bisect import bisect_right
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...arrays import Float, Int, as_count, frozen
from ...errors import InvalidOption
from ...files import read_arrays
from ...model.cmdp import CMDP
from ...model.problem import Problem
from ...model.signals import Deterministic, Drift, Gaussian, Law, Signals
from .tumor import LETHAL, Body, dead

DOSES = (0.0, 0.25, 0.5, 0.75, 1.0)
TUMOR_EDGES = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35)
DRUG_EDGES = (0.15, 0.45)
DEATH = (len(TUMOR_EDGES) + 1) * (len(DRUG_EDGES) + 1)  # the last state
STATES = DEATH + 1
BLOCKS = 14
SHARE = 6 / 14  # of a full dose, tolerated in each block

TABLE = Path(__file__).with_name("dosing.safetensors")


class CourseTable(NamedTuple):
    """Counts of treated patients, before death."""

    admissions: Int  # [S]: in which state they came
    transitions: Int  # [S, A, S]: how often a dose in a state led to another
    health: Float  # [S, A]: the sum of their mean health over these blocks


def make(
    horizon: int = BLOCKS,
    tolerance: float | None = None,
    biomarkers: Law | None = None,
    drift: Drift | None = None,
) -> Problem:
    """Make the problem of a course of treatment.

    Args:
        horizon: blocks of two days.
        tolerance: full doses over the course; 6 of 14 by default, and in proportion for another horizon.
        biomarkers: the noise law of the hints, around the block's share of the tolerance; Gaussian(0.2) by default.
        drift: how the tolerance moves over the episodes; it does not by default.

    """
    H = as_count("horizon", horizon, least=1, error=InvalidOption)
    table = load()
    blocks = table.transitions.sum(axis=2)
    blocks[DEATH] = 1  # nothing was seen there
    transitions = table.transitions / blocks[:, :, None]
    transitions[DEATH, :, DEATH] = 1.0
    dose = np.tile(DOSES, (STATES, 1))
    dose[DEATH] = 1.0
    cmdp = CMDP(
        transitions=transitions,
        rewards=table.health / blocks,
        constraints=[dose],
        thresholds=[SHARE * H if tolerance is None else tolerance],
        start=table.admissions / table.admissions.sum(),
        senses="<=",
        horizon=H,
        state_names=_state_names(),
        action_names=["no dose", "dose 1/4", "dose 1/2", "dose 3/4", "full dose"],
        limit_names=["dose"],
        units={"reward": "blocks of full health", "constraints": ["full doses a course"]},
    )
    # The doctor knows the dose that was given. Health is measured, and differs within a class.
    hints = Gaussian(0.2) if biomarkers is None else biomarkers
    return Problem(cmdp, Signals(Gaussian(0.1), Deterministic(), hints, drift))


def state_of(body: Body) -> int:
    """Return the state that a body is seen in."""
    if dead(body):
        return DEATH
    drugs = len(DRUG_EDGES) + 1
    return bisect_right(TUMOR_EDGES, body.tumor) * drugs + bisect_right(DRUG_EDGES, body.drug)


def _state_names() -> list[str]:
    """Return the states' names: classes of tumor and drug, and death."""
    tumors = [f"tumor {low:g} to {high:g}" for low, high in pairwise((0.0, *TUMOR_EDGES, LETHAL))]
    drugs = ["little drug", "some drug", "much drug"]  # parted at DRUG_EDGES
    return [*(f"{tumor}, {drug}" for tumor in tumors for drug in drugs), "death"]


def death_risk(cmdp: CMDP, policy: ArrayLike) -> float:
    """Return the probability that a patient is dead at the end of the course under `policy` ``[H,S,A]``."""
    pi = cmdp.policy(policy)
    now = cmdp.model.start
    for h in range(cmdp.H):
        now = np.einsum("s,sa,sat->t", now, pi[h], cmdp.transitions[h])
    return float(now[DEATH])


@functools.cache
def load() -> CourseTable:
    """Read the shipped table, which `dosing.table` made."""
    arrays, _ = read_arrays(TABLE, "dosing table")
    return CourseTable(*(frozen(arrays[name]) for name in CourseTable._fields))
