"""Long odd lives: what play can reach, a file can hold, and whoever reads it goes on with the same bits."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.spot import visits
from safespot.storage import journal
from tests.reliability.long_lives import Mood, bits, live, lived, moods
from tests.support.contract import VARIANTS, Subject

pytestmark = pytest.mark.filterwarnings("ignore")  # of doubts, contradictions and unsafe baselines
SUBJECTS = [(name, variant) for name in ss.learners.names() for variant in VARIANTS.get(name, {})]
EPOCHS = [(name, variant) for name, variant in SUBJECTS if name == "spot-epochs"]
NARROW = {
    "threshold_totals": [(0.3, 0.9), (0.2, 1.1)]
}  # of three steps; 0.3 + (0.9 - 0.3) is more than 0.9
# Nothing is left for exploring, so that a phase is a trial that breaks, some twenty episodes long.
SPENT = {"explore_budget": [30.0, 10.0]}
ALWAYS_BROKEN = [Mood(2000, "broken", "all", "same")]


def always_broken(variant: str) -> tuple[Subject, Any]:
    """A learner whose trials all break, and its subject; guarded by a budget that is never spent."""
    if variant != "guarded":
        who = Subject("spot-epochs", variant)
        return who, who.make(**SPENT)
    who = Subject("spot-epochs", "units")
    return who, ss.Guard(who.make(**SPENT), who.first_policy, 1e6)


@pytest.mark.parametrize("subject", SUBJECTS, ids="-".join)
def test_any_life_can_be_saved_and_loaded(
    subject: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if subject[1] == "pool":
        monkeypatch.setattr(visits, "DENSE", 0)
    who = Subject(*subject)
    life = list(moods(np.random.default_rng(1), 600 if subject in EPOCHS else 120))
    live(who, who.make(), life, 2, tmp_path)


@pytest.mark.parametrize("variant", ["default", "pool", "guarded"])
def test_phases_have_no_end(variant: str, tmp_path: Path) -> None:
    """Where no policy keeps the limits, phases do not double."""
    who, learner = always_broken(variant)
    live(who, learner, ALWAYS_BROKEN, 3, tmp_path, stops=30)
    assert learner.guarded.history[-1].phase > 64


@pytest.mark.parametrize(
    "options",
    [
        {}, {"independent_hints": True}, {"shared_threshold": True}, {"window": 0.3},
        {"independent_hints": True, "shared_threshold": True},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("name", ["spot-epochs", "spot"])
def test_hints_that_contradict_what_was_declared(
    name: str, options: dict[str, Any], tmp_path: Path
) -> None:
    """One sample an episode, as large as it can be: the limits that it proves lie beyond the declared ones."""
    who = Subject(name, "default")
    if name == "spot":
        options = {**options, "estimator": "total", "threshold_scale": 1.0}
    learner = who.make(**options, **NARROW)
    # A step that shows 0.7 or less; the two that show nothing may have had any.
    life = [Mood(300, "usual", "none"), Mood(300, "usual", "none", "early")]
    live(who, learner, life, 4, tmp_path)
    again = who.make(**options, **NARROW)
    e = who.episode(np.random.default_rng(0))
    thresholds = np.full_like(e.thresholds, np.nan)
    thresholds[0] = 0.7, 1.0
    for _ in range(400):
        again.observe(ss.Episode(e.states, e.actions, e.rewards, e.constraints, thresholds))
    again.save(tmp_path / "contradicted")
    assert bits(ss.learners.load(tmp_path / "contradicted")) == bits(again)


@pytest.mark.parametrize("variant", ["guarded"])
def test_a_durable_learner_of_many_phases_can_be_opened(
    variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "RECORDS", 500)
    who, plain = always_broken(variant)
    rng = np.random.default_rng(5)
    with ss.open(tmp_path / "it", plain.anew()) as learner:
        for episode, played in lived(who, ALWAYS_BROKEN[0], rng):
            learner.observe(episode, played)
            plain.observe(episode, played)
    assert plain.guarded.history[-1].phase > 64
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*snapshot")  # each is whole
        with ss.open(tmp_path / "it") as learner:
            assert bits(learner.learner) == bits(plain)
