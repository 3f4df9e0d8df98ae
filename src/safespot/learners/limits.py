"""Where a learner's limits come from while they are learned: the paper's window, or totals (``estimator="total"``).

What differs between the two records outside of the compiled step: how they are made, grown, written to files, and read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Float
from ..evidence.differences import Declared
from ..evidence.interface import Interface
from ..evidence.totals import Totals, check_totals_state, grow_totals, make_totals, total_rates
from ..spot.optimism import Radii, threshold_bounds
from ..spot.window import Window, check_window, empty_window, grow_window, rebuild_tree
from .options import Options

Limits = Window | Totals


def empty_limits(f: Interface, options: Options, declared: Declared) -> Limits:
    """The record that a learner with these options begins with."""
    known = options.thresholds is not None
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
    """The same with room for more episodes."""
    if isinstance(limits, Totals):
        return limits._replace(state=grow_totals(limits.state))
    return grow_window(limits)


def derive_bounds(limits: Limits, radii: Radii, lower: Float, upper: Float) -> None:
    """The bounds ``[m]`` that the samples so far give."""
    if isinstance(limits, Totals):
        lower[:], upper[:] = limits.bounds
    else:
        threshold_bounds(radii, limits, lower, upper)


def limits_arrays(limits: Limits) -> dict[str, NDArray]:
    """What a file holds of them."""
    if isinstance(limits, Totals):
        means = limits.state.means._asdict()
        plain = {k: v for k, v in limits.state._asdict().items() if k != "means"}
        found = {f"means.{k}": v for k, v in means.items() if k != "terms"}
        return {**found, **plain, "bounds": limits.bounds}
    return {k: v for k, v in limits._asdict().items() if k != "tree"}


def restored_limits(fresh: Limits, arrays: dict[str, NDArray]) -> Limits:
    """What a file holds, if it can belong to a learner that began with `fresh`."""
    if isinstance(fresh, Totals):
        return check_totals_state(fresh, arrays)
    fields: Any = arrays
    window = check_window(fresh, Window(**fields, tree=fresh.tree))
    rebuild_tree(window)
    return window
