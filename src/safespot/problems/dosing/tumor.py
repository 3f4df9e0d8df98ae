"""A tumor under chemotherapy: the published equations, patients who differ, treatment in blocks of two days.

The model of tumor, immune and normal cells and a drug by de Pillis and Radunskaya (2001), in the form that
Ahn and Park (2011) and Padmanabhan, Meskin and Haddad (2017) use for scheduling chemotherapy. Populations are
scaled to their carrying capacities, time is in days, u in [0,1] is the dose rate, and k(B) = 1 - exp(-B) is
how much of what the drug can do it does at a concentration B:

    N' = r2 N (1 - b2 N) - c4 T N - a3 k(B) N              normal cells
    T' = r1 T (1 - b1 T) - c2 I T - c3 T N - a2 k(B) T     tumor cells
    I' = s + w I T / (v + T) - c1 I T - d1 I - a1 k(B) I   immune cells
    B' = -d2 B + u                                         drug in the blood

A course of treatment is `admit` and then `treat`, block after block, until it ends or the patient is `dead`.
Everything random comes from the generator that is handed in, as uniform numbers only.

**Death.** A patient is dead once the tumor fills four tenths of its carrying capacity. Left alone, the
patient of the published constants gets there on day 23, on the way to an equilibrium at 0.56; normal cells
are then down to 0.6 of their capacity, when optimal-control studies of such models keep them above 0.75.
The level bounds the tumor alone, since normal cells follow it (near 1 - T).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...kernels.jit import inlined, kernel

DAYS = 2.0  # in a block
STEPS = 64  # of the integrator in a block; its error over a block is then below 1e-8
LETHAL = 0.4  # the tumor that kills
CONSTANTS_VARY = 0.1  # from patient to patient, as a share of the published constants
START_VARIES = 0.3  # from patient to patient, as a share of the published start
NOISE = 0.1  # from block to block, as a share of each population of cells


class Patient(NamedTuple):
    """The constants of one patient; by default the published ones."""

    a1: float = 0.2  # the drug kills immune cells,
    a2: float = 0.3  # tumor cells
    a3: float = 0.1  # and normal cells
    b1: float = 1.0  # one over the carrying capacity of tumor cells
    b2: float = 1.0  # and of normal cells
    c1: float = 1.0  # the tumor kills immune cells
    c2: float = 0.5  # immune cells kill the tumor
    c3: float = 1.0  # normal cells compete with the tumor
    c4: float = 1.0  # the tumor competes with normal cells
    d1: float = 0.2  # immune cells die
    d2: float = 1.0  # the drug decays
    r1: float = 1.5  # the tumor grows
    r2: float = 1.0  # normal cells grow
    s: float = 0.33  # immune cells are made
    w: float = 0.01  # and the tumor calls for more
    v: float = 0.3  # the tumor at which half of that call is heard


class Body(NamedTuple):
    """What changes under treatment; by default the published start."""

    normal: float = 0.9
    tumor: float = 0.2
    immune: float = 0.005
    drug: float = 0.0


def admit(rng: np.random.Generator) -> tuple[Patient, Body]:
    """A new patient: every constant and every population of cells varied on its own, no drug yet."""
    constants = _varied(Patient(), CONSTANTS_VARY, rng)
    normal, tumor, immune = _varied(Body()[:3], START_VARIES, rng)
    return Patient(*constants), Body(normal, tumor, immune)


def treat(
    patient: Patient, body: Body, dose: float, rng: np.random.Generator
) -> tuple[Body, float]:
    """One block at a dose rate in [0,1]: the body after it, and the mean health during it.

    Health is 1 without a tumor and falls linearly to 0 at the lethal one. After the block every
    population of cells is off by what the equations do not know.
    """
    after, health = flow(patient, body, float(dose))
    normal, tumor, immune = _varied(after[:3], NOISE, rng)
    return Body(normal, tumor, immune, after.drug), health


def dead(body: Body) -> bool:
    """Whether the tumor has killed."""
    return body.tumor >= LETHAL


def _varied(values: tuple[float, ...], share: float, rng: np.random.Generator) -> tuple[float, ...]:
    """Each value off by up to `share` of itself, uniformly."""
    uniforms = rng.random(len(values)).tolist()
    return tuple(x * (1.0 + share * (2.0 * u - 1.0)) for x, u in zip(values, uniforms, strict=True))


@kernel
def flow(patient: Patient, body: Body, dose: float) -> tuple[Body, float]:
    """The equations over one block by the classical Runge-Kutta method, and the mean health (trapezoidal rule)."""
    h = DAYS / STEPS
    health = 0.5 * healthiness(body)
    for _ in range(STEPS):
        k1 = rates(patient, body, dose)
        k2 = rates(patient, moved(body, k1, 0.5 * h), dose)
        k3 = rates(patient, moved(body, k2, 0.5 * h), dose)
        k4 = rates(patient, moved(body, k3, h), dose)
        body = moved(body, k1, h / 6.0)
        body = moved(body, k2, h / 3.0)
        body = moved(body, k3, h / 3.0)
        body = moved(body, k4, h / 6.0)
        health += healthiness(body)
    return body, (health - 0.5 * healthiness(body)) / STEPS


@inlined
def rates(p: Patient, body: Body, u: float) -> Body:
    """The right-hand side of the equations."""
    N, T, I, B = body  # noqa: E741  the letters of the equations
    k = 1.0 - np.exp(-B)
    return Body(
        p.r2 * N * (1.0 - p.b2 * N) - p.c4 * T * N - p.a3 * k * N,
        p.r1 * T * (1.0 - p.b1 * T) - p.c2 * I * T - p.c3 * T * N - p.a2 * k * T,
        p.s + p.w * I * T / (p.v + T) - p.c1 * I * T - p.d1 * I - p.a1 * k * I,
        -p.d2 * B + u,
    )


@inlined
def moved(body: Body, rate: Body, days: float) -> Body:
    """The body after so many days at a constant rate."""
    return Body(
        body.normal + days * rate.normal,
        body.tumor + days * rate.tumor,
        body.immune + days * rate.immune,
        body.drug + days * rate.drug,
    )


@inlined
def healthiness(body: Body) -> float:
    """1 without a tumor, 0 at the lethal one and beyond."""
    return max(0.0, 1.0 - body.tumor / LETHAL)
