"""Power failures of a decision service: what it acknowledged is on the disk, whatever else the disk forgets.

A service works in this process on a disk that remembers what was synced (`disks.Power`); every image that a power
failure could leave is opened again as a service would.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from safespot import files
from safespot.service.desk import Settings, open_desk
from safespot.service.episodes import ENDED
from tests.reliability.disks import Power, images
from tests.reliability.service_kills import learner
from tests.reliability.survival import Outage, _memory, on, short_journals
from tests.support.serving import serving


class Threaded(Power):
    """Syncs run beside writes: one that comes while a sync is under way is not part of it."""

    def sync_data(self, descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        self.log.append(("sync", self.named(path)))
        files.Disk.sync_data(self, descriptor)


async def work(folder: Path, disk: Power, episodes: int) -> None:
    """Two episodes at a time, of which the second ends first; acknowledgements are noted among what the disk did."""
    async with serving(folder, learner()) as client:
        for k in range(episodes):
            paths = [await client.start(f"{k}-{i}") for i in range(2)]
            disk.log += [("begun", path.rpartition("/")[2]) for path in paths]
            for path in reversed(paths):
                for step in range(3):
                    await client.post(f"{path}/decisions", {"step": step, "state": 0})
                    body = {"step": step, "reward": 0, "constraints": [1]}
                    await client.post(f"{path}/outcomes", body)
                assert (await client.post(f"{path}/end", {"state": 0}))[0] == 200
                disk.log.append(("ended", path.rpartition("/")[2]))
            await client.counted(2 * k + 2)


def outages(disk: Callable[[], Power], most: int, episodes: int = 5, seed: int = 0) -> Outage:
    """Lose the power at every moment, in many ways; `most` different images are opened, drawn at random."""
    rng, power = random.Random(seed), disk()
    with tempfile.TemporaryDirectory(dir=_memory()) as name, short_journals():
        folder, left = Path(name, "it"), Path(name, "left")
        with pytest.MonkeyPatch.context() as patched, on(power):
            patched.setattr("safespot.service.ledger.BYTES", 3_000)  # so that it turns
            asyncio.run(work(folder, power, episodes))
        told: dict[str, str] = {}
        found: dict[int, tuple[dict[str, bytes], dict[str, str]]] = {}
        for moment, image in images(power.log, rng, subsets=2):
            what, about, *_ = power.log[moment - 1]
            if what in ("begun", "ended"):
                told = {**told, about: what}
            content = {p.name: data for p, data in image.files.items() if p.parent == folder}
            found[hash((frozenset(content.items()), tuple(told.items())))] = content, told
        chosen = [each for each in found.values() if each[1]]
        rng.shuffle(chosen)
        wrong: list[str] = []
        for content, expected in chosen[:most]:
            shutil.rmtree(left, ignore_errors=True)
            left.mkdir()
            for file, data in content.items():
                (left / file).write_bytes(data)
            wrong += _lost(left, expected)
    return Outage(min(most, len(chosen)), wrong)


def _lost(folder: Path, told: dict[str, str]) -> list[str]:
    """What was acknowledged and is not there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torn ends are cut off with a warning
        try:
            desk = open_desk(folder, Settings())
        except Exception as problem:
            return [f"cannot be opened: {problem}"]
    there = dict.fromkeys(desk._finished, ENDED)
    there |= {name: episode.status for name, episode in desk._pending.items()}
    desk.commits.close()
    desk._thread.shutdown()
    desk.ledger.close()
    desk.durable.close()
    return [
        f"{name} was {what}, and is {there.get(name, 'unknown')}"
        for name, what in told.items()
        if name not in there or (what == "ended" and there[name] != ENDED)
    ]
