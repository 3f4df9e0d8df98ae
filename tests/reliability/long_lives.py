"""Long odd lives: whatever a learner may live through, its file can be read at any moment, and it goes on from there.

A life is made of moods, each some episodes long: limits that always break, or never; hints that say nothing, or what
contradicts the declared limits; episodes that end early, at once, or are all the same; other policies that play.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import safespot as ss
from safespot import files
from tests.support.contract import Subject, changed

Array = Any

# Constraints and hints inside, from the share of their ranges on: None: as they come.
LEVELS: dict[str, tuple[float | None, float | None]] = {
    "usual": (None, None),
    "broken": (0.0, 1.0),
    "kept": (1.0, 0.0),
    "high hints": (None, 1.0),
    "low hints": (None, 0.0),
    "rare": (0.01, None),
}
HINTS = ("all", "first", "none", "some")  # which steps show one
ENDS = ("never", "early", "at once", "same")
PLAYERS = ("own", "other", "digest", "mixed")


class Mood(NamedTuple):
    """What a stretch of episodes has in common."""

    episodes: int
    levels: str = "usual"
    hints: str = "some"
    ends: str = "never"
    players: str = "own"


def moods(rng: np.random.Generator, episodes: int) -> Iterator[Mood]:
    """A life of so many episodes."""
    left = episodes
    while left > 0:
        length = min(left, int(rng.integers(5, 150)))
        left -= length
        yield Mood(
            length, *(str(rng.choice(list(choices))) for choices in (LEVELS, HINTS, ENDS, PLAYERS))
        )


def lived(
    subject: Subject, mood: Mood, rng: np.random.Generator
) -> Iterator[tuple[ss.Episode, Any]]:
    """The episodes of a mood, and who played each."""
    others = np.array(subject.mask / subject.mask.sum(axis=2, keepdims=True))
    first = subject.episode(rng)
    for _ in range(mood.episodes):
        episode = first if mood.ends == "same" else subject.episode(rng)
        episode = ending(shaped(subject, episode, mood, rng), mood, rng)
        player = mood.players if mood.players != "mixed" else str(rng.choice(PLAYERS[:3]))
        played = {"own": None, "other": others, "digest": "ab" * 32}[player]
        yield episode, played


def shaped(
    subject: Subject, episode: ss.Episode, mood: Mood, rng: np.random.Generator
) -> ss.Episode:
    """The episode with the signals of a mood."""
    _, _, offset, scale = subject.maps
    g, x = LEVELS[mood.levels]
    constraints, thresholds = np.array(episode.constraints), np.array(episode.thresholds)
    if g is not None:
        constraints[:] = offset + scale * g
    if x is not None:
        thresholds[:] = offset + scale * x
    if mood.hints == "none":
        thresholds[:] = np.nan
    elif mood.hints == "first":
        thresholds[1:] = np.nan
    elif mood.hints == "all":
        thresholds = np.where(np.isnan(thresholds), offset + scale * 0.5, thresholds)
    return changed(episode, constraints=constraints, thresholds=thresholds)


def ending(episode: ss.Episode, mood: Mood, rng: np.random.Generator) -> ss.Episode:
    """The episode, or what is left of it where it was given up."""
    if mood.ends not in ("early", "at once") or rng.random() < 0.3:
        return episode
    at = 0 if mood.ends == "at once" else int(rng.integers(len(episode.rewards)))
    rewards, constraints = np.array(episode.rewards), np.array(episode.constraints)
    rewards[at:] = np.nan
    constraints[at:] = np.nan
    return ss.Episode(
        episode.states, episode.actions, rewards, constraints, episode.thresholds, unfinished=True
    )


def live(
    subject: Subject, learner: Any, life: list[Mood], seed: int, folder: Path, stops: int = 12
) -> Any:
    """Live a life twice: in one go, and saved and loaded at random moments. Raises where the two differ."""
    again = learner.anew()
    rng = np.random.default_rng(seed)
    total = sum(mood.episodes for mood in life)
    when = set(rng.integers(1, total + 1, size=stops).tolist()) | {total}
    n = 0
    for mood in life:
        for episode, played in lived(subject, mood, rng):
            n += 1
            for each in (learner, again):
                each.observe(episode, played)
            if n in when:
                again.save(folder / "life")
                again = ss.learners.load(folder / "life")
                assert bits(again) == bits(learner), f"after episode {n}, {mood}"
    return learner


def bits(learner: Any) -> str:
    """A digest of all that a learner carries and of what is in doubt of its data."""
    return files.checksum(learner.arrays(), vars(learner.doubts))
