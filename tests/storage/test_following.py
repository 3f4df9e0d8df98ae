"""Whoever looks on reads the same from the files as the owner has in memory."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path

import numpy as np
import pytest

import safespot as ss
from safespot.storage import following, journal
from safespot.storage.following import Curve, Following
from tests.reliability.survival import digest
from tests.support.contract import Subject

SPOT = Subject("spot", "masked")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Journals of five episodes."""
    monkeypatch.setattr(journal, "RECORDS", 5)


def episodes(n: int) -> list[ss.Episode]:
    rng = np.random.default_rng(1)
    return [SPOT.episode(rng) for _ in range(n)]


def agree(watched: Following, owner: ss.DurableLearner) -> None:
    assert digest(watched.learner) == digest(owner.learner)
    assert watched.meter.episodes == owner.meter.episodes
    np.testing.assert_array_equal(watched.meter.violation_bounds, owner.meter.violation_bounds)


@pytest.mark.parametrize("at_once", [1, 3, 5, 12])
def test_it_has_what_the_owner_has(at_once: int, tmp_path: Path) -> None:
    """Within a journal, at its end, and over several at once."""
    seen = episodes(24)
    with ss.open(tmp_path / "it", SPOT.make()) as owner:
        watched = Following(tmp_path / "it")
        agree(watched, owner)
        for begin in range(0, len(seen), at_once):
            for e in seen[begin : begin + at_once]:
                owner.observe(e)
            watched.update()
            agree(watched, owner)
            watched.update()  # nothing new
            agree(watched, owner)
        assert watched.curve.episodes == list(range(1, 25))
        agree(Following(tmp_path / "it"), owner)  # and whoever comes late


def test_where_the_first_journals_are_gone(tmp_path: Path) -> None:
    """The meter counts what is left; the learner is whole, by its snapshot."""
    seen = episodes(18)
    with ss.open(tmp_path / "it", SPOT.make()) as owner:
        for e in seen[:17]:
            owner.observe(e)
        for number in (0, 5):
            journal.place(tmp_path / "it", number).unlink()
        watched = Following(tmp_path / "it")
        assert (watched.learner.episode, watched.meter.episodes) == (18, 7)
        owner.observe(seen[17])
        watched.update()
        assert digest(watched.learner) == digest(owner.learner)
        meter = SPOT.make().make_meter()
        for e in seen[10:]:
            meter.observe(e)
        np.testing.assert_array_equal(watched.meter.violation_bounds, meter.violation_bounds)


def test_where_the_first_journal_is_still_to_come(tmp_path: Path) -> None:
    """The learner had seen episodes before it became durable; its onlooker is there between snapshot and journal."""
    folder, learner, seen = tmp_path / "it", SPOT.make(), episodes(9)
    for e in seen[:3]:
        learner.observe(e)
    ss.open(folder, learner).close()
    journal.place(folder, 3).unlink()
    watched = Following(folder)
    with ss.open(folder) as owner:
        for n, e in enumerate(seen[3:], start=1):
            owner.observe(e)
            watched.update()
            assert (watched.learner.episode, watched.meter.episodes) == (4 + n, n)
            agree(watched, owner)


def test_whoever_looks_on_is_not_warned_of_what_the_owner_was(tmp_path: Path) -> None:
    with ss.open(tmp_path / "it", SPOT.make(episodes=1)) as owner:
        owner.observe(episodes(1)[0])
        with pytest.warns(UserWarning, match="beyond"):
            owner.observe(episodes(2)[1])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            agree(Following(tmp_path / "it"), owner)


def test_doubts_are_followed(tmp_path: Path) -> None:
    with ss.open(tmp_path / "it", SPOT.make()) as owner:
        watched = Following(tmp_path / "it")
        owner.observe(episodes(1)[0])
        owner.observe(dataclasses.replace(episodes(2)[1], rejected=3))
        watched.update()
        assert watched.learner.doubts.rejected == 3
        agree(watched, owner)


def test_an_empty_folder_has_nothing_to_follow(tmp_path: Path) -> None:
    with pytest.raises(ss.errors.InvalidFile, match="there is no durable learner in"):
        Following(tmp_path)


def test_a_curve_gets_rarer_as_it_gets_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "POINTS", 4)
    meter, curve = SPOT.make().make_meter(), Curve()
    for k, e in enumerate(episodes(14), start=1):
        meter.observe(e)
        if k % curve.step == 0:
            curve.add(meter)
        if k == 4:
            assert (curve.step, curve.episodes) == (1, [1, 2, 3, 4])
        if k == 5:
            assert (curve.step, curve.episodes) == (2, [2, 4])
    assert (curve.step, curve.episodes) == (4, [4, 8, 12])
    assert len(curve.bounds) == 3
    again = SPOT.make().make_meter()
    for e in episodes(12):
        again.observe(e)
    np.testing.assert_array_equal(curve.bounds[-1], again.violation_bounds)


def test_policies_are_found_again_and_tickets(tmp_path: Path) -> None:
    """By the snapshot before them, or from the beginning, whichever are asked for."""
    seen, plain = episodes(17), SPOT.make()
    records, policies = [], []
    for k, e in enumerate(seen):
        policies.append(plain.policy.copy())
        own = ss.learners.policy_digest(plain.policy)
        records.append(
            journal.EpisodeRecord(e, np.full(len(e.actions), np.nan), own, bytes([k + 1]) * 16)
        )
        plain.observe(e)
    policies.append(plain.policy.copy())
    with ss.open(tmp_path / "it", SPOT.make()) as learner:
        for one in records:
            learner.observe_group([one])
        for asked in ([17], [0], [3, 16], [10], [4, 9, 11, 17], list(range(18)), []):
            found = learner.policies_after(asked)
            assert sorted(found) == sorted(asked)
            for n, policy in found.items():
                np.testing.assert_array_equal(policy, policies[n])
        numbered = [(record.ticket, n) for n, record in enumerate(records)]
        assert learner.tickets_since(0) == learner.tickets_since(4) == dict(numbered)
        assert learner.tickets_since(5) == dict(numbered[5:])
        assert learner.tickets_since(16) == dict(numbered[15:])
        assert learner.first == 1
        journal.place(tmp_path / "it", 0).unlink()
        assert learner.first == 11  # the journal from 5 on has no snapshot any more
        again = [
            (None if policy is None else policy.copy(), e.rewards) for policy, e in learner.replay()
        ]
    assert len(again) == 7
    for (own_policy, rewards), n in zip(again, range(10, 17), strict=True):
        np.testing.assert_array_equal(own_policy, policies[n])
        np.testing.assert_array_equal(rewards, seen[n].rewards)
