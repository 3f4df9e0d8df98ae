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

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

DAYS = 2.0  # in a block
STEPS = 64  # of the integrator in a block; its error over a block is then below 1e-8
LETHAL = 0.4  # the tumor that kills
CONSTANTS_VARY = 0.1  # from patient to patient, as a share of the published constants
START_VARIES = 0.3  # from patient to patient, as a share of the published start
NOISE = 0.1  # from block to block, as a share of each population of cells
Slope = tuple[float, float, float, float]  # of N, T, I and B, a day


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
    """The variables that treatment changes; by default the published start."""

    normal: float = 0.9
    tumor: float = 0.2
    immune: float = 0.005
    drug: float = 0.0


def admit(rng: np.random.Generator) -> tuple[Patient, Body]:
    """Draw a new patient: every constant and every population of cells varied on its own, no drug yet."""
    constants = _varied(Patient(), CONSTANTS_VARY, rng)
    normal, tumor, immune = _varied(Body()[:3], START_VARIES, rng)
    return Patient(*constants), Body(normal, tumor, immune)


def treat(
    patient: Patient, body: Body, dose: float, rng: np.random.Generator
) -> tuple[Body, float]:
    """Return the body after a block at a dose rate in [0,1], and the mean health during it.

    Health is 1 without a tumor and falls linearly to 0 at the lethal one. After the block every
    population of cells is off by what the equations do not know.
    """
    after, health = flow(patient, body, float(dose))
    normal, tumor, immune = _varied(after[:3], NOISE, rng)
    return Body(normal, tumor, immune, after.drug), health


def dead(body: Body) -> bool:
    """Return whether the tumor has killed."""
    return body.tumor >= LETHAL


def _varied(values: tuple[float, ...], share: float, rng: np.random.Generator) -> tuple[float, ...]:
    """Return the values, each off by up to `share` of itself, uniformly."""
    uniforms = rng.random(len(values)).tolist()
    return tuple(x * (1.0 + share * (2.0 * u - 1.0)) for x, u in zip(values, uniforms, strict=True))


def flow(patient: Patient, body: Body, dose: float) -> tuple[Body, float]:
    """Solve the equations over one block by the classical Runge-Kutta method; return the mean health too.

    The mean is that of the trapezoidal rule. Numbers are plain: an array of four takes longer to make than to use.
    """
    slope = slopes(patient, dose)
    h, half, sixth = DAYS / STEPS, DAYS / STEPS / 2.0, DAYS / STEPS / 6.0
    N, T, I, B = body  # noqa: E741  the letters of the equations
    health = -0.5 * healthiness(T)
    for _ in range(STEPS):
        health += healthiness(T)
        n1, t1, i1, b1 = slope(N, T, I, B)
        n2, t2, i2, b2 = slope(N + half * n1, T + half * t1, I + half * i1, B + half * b1)
        n3, t3, i3, b3 = slope(N + half * n2, T + half * t2, I + half * i2, B + half * b2)
        n4, t4, i4, b4 = slope(N + h * n3, T + h * t3, I + h * i3, B + h * b3)
        N += sixth * (n1 + 2.0 * (n2 + n3) + n4)
        T += sixth * (t1 + 2.0 * (t2 + t3) + t4)
        I += sixth * (i1 + 2.0 * (i2 + i3) + i4)  # noqa: E741
        B += sixth * (b1 + 2.0 * (b2 + b3) + b4)
    return Body(N, T, I, B), (health + 0.5 * healthiness(T)) / STEPS


def slopes(patient: Patient, u: float) -> Callable[[float, float, float, float], Slope]:
    """Return the right-hand side of the equations, as a function of N, T, I and B."""
    a1, a2, a3, b1, b2, c1, c2, c3, c4, d1, d2, r1, r2, s, w, v = patient

    def slope(N: float, T: float, I: float, B: float) -> Slope:  # noqa: E741
        k = 1.0 - math.exp(-B)
        return (
            N * (r2 * (1.0 - b2 * N) - c4 * T - a3 * k),
            T * (r1 * (1.0 - b1 * T) - c2 * I - c3 * N - a2 * k),
            s + I * (w * T / (v + T) - c1 * T - d1 - a1 * k),
            -d2 * B + u,
        )

    return slope


def healthiness(tumor: float) -> float:
    """Return 1 without a tumor, 0 at the lethal one and beyond."""
    return max(0.0, 1.0 - tumor / LETHAL)
