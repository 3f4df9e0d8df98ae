"""What an export says: each column of a service's audit trail is what its clients said and were told."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pytest

import safespot as ss
from safespot.arrays import MARKS
from tests.support.serving import SIZES, Client, abandon, serving

H = SIZES["horizon"]


@dataclass
class Told:
    """An episode as its client knows it."""

    path: str
    policy: str  # the digest
    version: int
    probabilities: list[list[list[float]]]  # of the policy that was in play when it began
    states: list[int] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    outcomes: dict[int, dict[str, Any]] = field(default_factory=dict)
    final: int | None = None

    def rows(self, number: int) -> list[tuple[Any, ...]]:
        """Return what the export must say of it."""
        after = [*self.states[1:], self.final]
        unfinished = int(None in after or len(self.states) < H)
        rows = []
        for step, (state, action) in enumerate(zip(self.states, self.actions, strict=True)):
            said = self.outcomes.get(step, {})
            reward = None if after[step] is None else said.get("reward")
            rows.append(
                (number, step, state, action, reward, *said.get("constraints", [None]),
                 *(said.get("thresholds") or [None]), after[step],
                 0, 0, unfinished, 0, self.probabilities[step][state][action], self.policy, self.version)
            )  # fmt: skip
        return rows


class Ward:
    """Clients of a service that note what they say and are told."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.begun: list[Told] = []

    async def start(self) -> Told:
        _, policy = await self.client.get("/policy")
        status, answer = await self.client.post("/episodes", idempotency_key=str(len(self.begun)))
        assert (status, answer["policy"]) == (201, policy["digest"])
        told = Told(
            f"/episodes/{answer['episode']}", policy["digest"], policy["episodes"],
            policy["probabilities"],
        )  # fmt: skip
        self.begun.append(told)
        return told

    async def decide(self, told: Told, state: int) -> None:
        body = {"step": len(told.states), "state": state}
        status, answer = await self.client.post(f"{told.path}/decisions", body)
        assert (status, answer["policy"]) == (200, told.policy)
        told.states.append(state)
        told.actions.append(answer["action"])

    async def outcome(self, told: Told, step: int, *, sample: bool = True) -> None:
        number = len(self.begun) * H + step
        body = {
            "reward": number / 64, "constraints": [number / 128],
            "thresholds": [number / 256] if sample else None,
        }  # fmt: skip
        assert (await self.client.post(f"{told.path}/outcomes", {"step": step, **body}))[0] == 200
        told.outcomes[step] = body

    async def end(self, told: Told, state: int) -> None:
        assert (await self.client.post(f"{told.path}/end", {"state": state}))[0] == 200
        told.final = state

    async def expire(self, told: Told) -> None:
        assert (await self.client.post(f"{told.path}/expire"))[0] == 200

    async def whole(self, told: Told) -> None:
        for step in range(H):
            await self.decide(told, (step + len(self.begun)) % 3)
        for step in reversed(range(H)):  # outcomes may come in any order
            await self.outcome(told, step, sample=step != 0)
        await self.end(told, 2)


async def play(ward: Ward) -> None:
    """Play whole episodes and others that are given up at every point, one after another and side by side."""
    for _ in range(3):
        await ward.whole(await ward.start())
        await ward.client.counted(len(ward.begun))
    side_by_side = [await ward.start() for _ in range(4)]
    for told in reversed(side_by_side):
        await ward.whole(told)
    await ward.client.counted(7)
    undecided, *lost = [await ward.start() for _ in range(6)]
    await ward.whole(await ward.start())
    await ward.expire(undecided)  # it was not played
    for told in lost:
        await ward.decide(told, 1)
    await ward.expire(lost[0])
    await ward.outcome(lost[1], 0)
    await ward.expire(lost[1])
    await ward.outcome(lost[2], 0)
    for told in lost[2:]:
        await ward.decide(told, 0)
    await ward.expire(lost[2])
    await ward.outcome(lost[3], 1)
    await ward.expire(lost[3])
    await ward.outcome(lost[4], 0)
    await ward.outcome(lost[4], 1)
    await ward.expire(lost[4])
    await ward.client.counted(13)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize("learner", [
    lambda: ss.Spot(**SIZES, start=None, episodes=100, slack=0.5, bonus_scale=0.01),  # it moves at every episode
    lambda: ss.Uniform(**SIZES, start=None, episodes=100),  # it never does
], ids=["spot", "uniform"])  # fmt: skip
def test_what_an_export_says(learner: Any, ending: str, tmp_path: Path) -> None:
    folder = tmp_path / "it"
    wards: list[Ward] = []

    async def work() -> None:
        async with serving(folder, learner()) as client:
            wards.append(ward := Ward(client))
            await play(ward)
            left = [await ward.start() for _ in range(3)]
            await ward.decide(left[0], 2)
            await ward.whole(left[1])
            await abandon(client)
        async with serving(folder) as again:  # open episodes go on under the policy of their start
            ward.client = again
            await ward.outcome(left[0], 0)
            await ward.decide(left[0], 1)
            await ward.outcome(left[0], 1)
            await ward.end(left[0], 0)
            await ward.expire(left[2])
            await again.counted(15)

    asyncio.run(work())
    played = [told for told in wards[0].begun if told.states]
    assert len(played) == 15
    trail = tmp_path / f"trail.{ending}"
    assert ss.logs.export_episodes(folder, trail) == len(played)
    relation = duckdb.connect().sql(f"from '{trail}'")
    assert relation is not None
    assert relation.columns == [
        "episode", "step", "state", "action", "reward", "constraint_0", "threshold_0", "next_state",
        *MARKS, "propensity", "policy", "policy_version",
    ]  # fmt: skip
    expected = [row for number, told in enumerate(played, 1) for row in told.rows(number)]
    assert relation.fetchall() == expected
    log = ss.read_log(trail, **SIZES, start=None)  # what was given up is there, and says so
    assert (len(log.episodes), log.rejected) == (len(played), ())
    given_up = [told.rows(0)[0][-5] for told in played]
    assert [episode.unfinished for episode in log.episodes] == given_up
    assert 0 < sum(given_up) < len(played)
    assert {told.version for told in played[3:7]} == {3}  # side by side
