"""`check_env`: what is missing or odd about an environment and its declarations, in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..arrays import as_count
from ..errors import InvalidEpisode, InvalidOption, SafespotError
from ..model.simulation import streams
from .black_box import as_box
from .steps import SIGNALS, Shown


def check_env(env: Any, episodes: int = 20, seed: int = 0, **declarations: Any) -> list[str]:
    """Play some episodes at random and say in plain words what is missing or odd; nothing: an empty list.

    Examples:
        >>> import safespot as ss
        >>> edges = [[0.5, 1.0, 1.5], [0.3]]  # of the tumor, of the drug
        >>> print(ss.gym.check_env(ss.gym.Clinic(), horizon=14, states=edges)[0])
        step ..., state: an episode ended early, with ..., and no ending is declared for it. ...
        >>> died = ss.gym.Ending(reward=0, constraints=1)
        >>> ss.gym.check_env(ss.gym.Clinic(), horizon=14, states=edges, endings=died)
        []

    """
    try:
        box = as_box(env, declarations)
    except SafespotError as exc:
        return [str(exc)]
    f = box.interface
    shape = f["horizon"], f["states"], f["actions"]
    mask = np.broadcast_to(True if f["action_mask"] is None else f["action_mask"], shape)
    policy = mask / mask.sum(axis=2, keepdims=True)
    rng = streams(seed).actions
    findings: dict[str, str] = {}  # the first place of each
    played = []
    for t in range(as_count("episodes", episodes, least=1, error=InvalidOption)):
        try:
            played.append(box.show(policy, rng.random(shape[0]), seed if t == 0 else None))
        except InvalidEpisode as exc:
            findings.setdefault(str(exc).partition(": ")[2], str(exc))
    sentences = list(findings.values())
    if not box.shows_thresholds:
        sentences.append(
            "no thresholds are shown (info has neither 'threshold' nor 'threshold_total'): they cannot be learned. "
            "Give signals={'thresholds': …}, or a learner that knows them."
        )
    return sentences + _odd(played, f) if played else sentences


def _odd(played: list[Shown], f: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each oddity of whole episodes: NaN, signals out of range or constant, another start."""
    sentences = []
    m, ranges = f["constraints"], f["ranges"]
    signals = np.hstack([episode.signals for episode in played])
    names = ["rewards", *(f"{key} of constraint {i}" for key in SIGNALS[1:] for i in range(m))]
    bounds = [ranges["reward"], *ranges["constraints"] * 2]
    for name, values, (low, high) in zip(names, signals, bounds, strict=True):
        samples = values[~np.isnan(values)]
        if samples.size < values.size and not name.startswith("thresholds"):
            sentences.append(f"{name} were NaN in {values.size - samples.size} steps.")
        if samples.size == 0:
            continue
        least, most = float(samples.min()), float(samples.max())
        if least < low or most > high:
            sentences.append(
                f"{name} were seen from {least:g} to {most:g}; their declared range is {low:g} to {high:g}. "
                "Declare a range that holds them, or clip=True."
            )
        elif least == most and not name.startswith("thresholds"):
            sentences.append(f"{name} were always {least:g}: there is nothing to learn from them.")
    if f["start"] is not None and any(episode.states[0] != f["start"] for episode in played):
        sentences.append(f"an episode did not start in state {f['start']}; leave start=None.")
    return sentences
