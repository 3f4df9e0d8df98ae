"""Estimators of a learner's limits: the paper's window, or totals (``estimator="total"``).

What differs between the two records outside of the compiled step: how they are made, grown, written to files, and read.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import Float
from ..errors import InvalidOption
from ..learners.threshold_totals import (
    HintTotals,
    check_totals_state,
    grow_totals,
    make_totals,
    total_rates,
)
from ..signals.interface import Interface
from ..signals.totals import Declared
from ..spot.optimism import Radii, threshold_bounds
from ..spot.window import Window, check_window, empty_window, grow_window, rebuild_tree
from ..states import flatten
from .options import LARGEST, AnyOptions, DualOptions, Options

Limits = Window | HintTotals


def empty_limits(f: Interface, options: AnyOptions, declared: Declared) -> Limits:
    """Return the record that a learner with these options begins with."""
    known = options.thresholds is not None
    if not isinstance(options, Options):
        return empty_window(f.H, 1, f.m, 1.0)  # its limits are in its state
    if options.estimator == "total" and not known:
        rates = total_rates(
            f.m, f.H, options.delta,
            planned=options.episodes,
            independent_hints=options.independent_hints,
            shared_threshold=options.shared_threshold,
            window=options.window,
            limits=np.array(declared.limits),
        )  # fmt: skip
        return make_totals(rates, f.H)
    pairs = 1 if known or options.estimator == "pooled" else f.S * f.A
    return empty_window(f.H, pairs, f.m, 1.0 if known else options.window)


def grow_limits(limits: Limits) -> Limits:
    """Return a copy with room for more episodes."""
    if isinstance(limits, HintTotals):
        return limits._replace(state=grow_totals(limits.state))
    return grow_window(limits)


def derive_bounds(limits: Limits, radii: Radii, lower: Float, upper: Float) -> None:
    """Derive the bounds ``[m]`` from the samples so far."""
    if isinstance(limits, HintTotals):
        lower[:], upper[:] = limits.bounds
    else:
        threshold_bounds(radii, limits, lower, upper)


def limits_arrays(limits: Limits) -> dict[str, NDArray]:
    """Return the arrays of a file."""
    if isinstance(limits, HintTotals):
        return flatten({**limits.state._asdict(), "bounds": limits.bounds})
    return flatten(limits)


def restored_limits(fresh: Limits, arrays: dict[str, NDArray]) -> Limits:
    """Return the limits in a file's arrays, checked against those of a new learner, `fresh`."""
    if isinstance(fresh, HintTotals):
        return check_totals_state(fresh, arrays)
    window = check_window(fresh, arrays)
    rebuild_tree(window)
    return window


def first_bounds(f: Interface, options: AnyOptions, declared: Declared) -> tuple[Float, Float]:
    """Return the bounds ``[m]`` of the thresholds before the first episode, inside."""
    if options.thresholds is not None:
        return declared.alpha.copy(), declared.alpha.copy()
    return np.zeros(f.m), np.full(f.m, float(f.H))


def inside_slack(f: Interface, slack: ArrayLike) -> float:
    """Return the room of a safe policy, inside: the smallest over the constraints."""
    values = np.asarray(slack, float)
    if values.shape not in ((), (f.m,)) or not (values > 1.0 / LARGEST).all():
        raise InvalidOption(
            f"slack must be a positive number, or one for each of the {f.m} constraints, got {slack!r}."
        )
    return float((values / np.abs(f.units.constraints.scale)).min())


def dual_bound(f: Interface, options: DualOptions) -> float:
    """Return the bound of the multipliers (D4); from `slack` it is 2 H / slack, slack brought inside."""
    if options.rho is not None:
        return options.rho
    return 2.0 * f.H / inside_slack(f, options.slack)
