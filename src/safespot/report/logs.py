"""What is said of runs inside the empirical model of a log: that they are just that, and prove nothing of the world."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..judging.propose_log import proven_limits
from .findings import Study


def of_model(study: Study) -> str | None:
    """What the problem of a study is, where it is the model of a log."""
    if study.log is None:
        return None
    return f"the empirical model of {len(study.log.episodes):,} episodes"


def in_model(study: Study, sentences: Sequence[str]) -> list[str]:
    """Each sentence says that it speaks of a model, where it does; and what the log itself proves."""
    if study.log is None:
        return list(sentences)
    return [*(f"In {of_model(study)}: {sentence}" for sentence in sentences), *proven(study)]


def proven(study: Study) -> list[str]:
    """What the log itself proves of the limits, and what to do for a policy."""
    if study.log is None:
        return []
    n, source = len(study.log.episodes), study.log.source
    said = []
    for i, (low, high) in enumerate(zip(*limits(study), strict=True)):
        which = "The limit" if study.m == 1 else f"Limit {i + 1}"
        if study.names.limits is not None:
            which = f"The limit of {study.called(i)}"
        said.append(
            f"{which} was given: {low:.4g}."
            if low == high
            else f"{which} itself lies between {low:.4g} and {high:.4g}, as the {n:,} episodes of the log prove "
            "(confidence 0.95)."
        )
    return [
        *said,
        f"Nothing is proven of a policy: all {study.episodes:,} episodes of learning were simulated in "
        f"{of_model(study)}.",
        f"For a policy to try next: safespot propose {source}",
    ]


def limits(study: Study) -> tuple[list[float], list[float]]:
    """(lower ``[m]``, upper ``[m]``): where the log itself proves the limits to be."""
    assert study.log is not None
    low, high = proven_limits(study.log)
    return np.asarray(low).tolist(), np.asarray(high).tolist()
