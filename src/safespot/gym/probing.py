"""Detection of an environment's signals, by playing a few of its steps."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..arrays import as_floats
from ..errors import InvalidOption, SafespotError
from .actions import Actions
from .steps import TOTAL, Found, Source, Step, finder

PROBED = 200  # steps in which a threshold sample is looked for


class Probe(NamedTuple):
    """The sources of an environment's signals, their number, and their kind."""

    constraints: Found
    thresholds: Found
    m: int
    costs: bool
    takes_totals: bool  # whether info's total counts in place of samples
    shows_thresholds: bool
    shows_totals: bool


def probe(env: Any, actions: Actions, constraints: Source, thresholds: Source) -> Probe:
    """Look at one step of the environment, or a few more, until one carries a threshold sample."""
    with _playable("fails"):
        observation, info = env.reset(seed=0)
        step = actions.take(observation, 0, info)
    named = next((key for key in ("constraint", "cost") if key in step.info), None)
    source = named if constraints is None else constraints
    if source is None and step.cost is None:
        raise InvalidOption(
            "the environment shows no constraint signals: info has neither 'constraint' nor 'cost' "
            f"(it has {sorted(step.info)}), and step returns no sixth element. Give "
            "signals={'constraints': …}, a key or a function of a Step."
        )
    find_constraints = finder(source)
    takes_totals = thresholds is None
    key = "threshold" if thresholds is None else thresholds
    samples: Found = key if callable(key) else lambda step: step.info.get(key)
    with _playable("shows no signals"):
        seen = find_constraints(step)
        # Not every step need carry a sample. Where they are is taken on the user's word; by default, a few
        # episodes are looked through.
        shows_totals, shows = False, True
        if takes_totals:
            shows_totals, shows = _shows(env, actions, samples, step)
    values = as_floats("constraints", seen, error=InvalidOption)
    if values.ndim > 1 or values.size == 0:
        raise InvalidOption(f"constraints must be a number or [m] numbers, got {values.tolist()}.")
    costs = source in (None, "cost")
    return Probe(find_constraints, samples, values.size, costs, takes_totals, shows, shows_totals)


def _shows(env: Any, actions: Actions, samples: Found, step: Step) -> tuple[bool, bool]:
    """Return whether any next step has a total, and whether any has a hint at all; a failure ends the search."""
    total, sample = TOTAL in step.info, samples(step) is not None
    with contextlib.suppress(Exception):
        for number in range(PROBED):
            if total or sample:
                break
            observation, info = step.next_state, step.info
            if step.ended or step.truncated:
                observation, info = env.reset()
            step = actions.take(observation, number % actions.count, info)
            total, sample = TOTAL in step.info, samples(step) is not None
    return total, total or sample


@contextlib.contextmanager
def _playable(symptom: str) -> Iterator[None]:
    """Raise an `InvalidOption` for an environment that fails at its very first step."""
    try:
        yield
    except Exception as exc:
        kind = "" if isinstance(exc, SafespotError) else f"{type(exc).__name__}: "
        raise InvalidOption(f"the environment's first step {symptom}: {kind}{exc}") from exc
