"""kill -9 and restarts of a decision service under load: nothing acknowledged is lost, nothing is counted twice.

python -m tests.reliability.service_kills [--kills 200] [--restarts 50] [--seed 0]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import safespot as ss
from safespot import files
from safespot.storage import journal
from tests.reliability.service_forks import Forks
from tests.reliability.service_load import Load, answers, free_port


def learner() -> ss.Learner:
    """What is served: it compiles quickly, and every episode changes its state."""
    return ss.Uniform(states=4, actions=3, horizon=3, constraints=1, episodes=10**7)


@dataclass
class Ordeal:
    """What came of it."""

    stops: int  # how many of them hit a service that worked
    acknowledged: int  # episodes
    wrong: list[str]


async def ordeal(
    folder: Path, stops: Sequence[signal.Signals], seed: int = 0, clients: int = 8
) -> Ordeal:
    """Stop the service with these signals, at random times, while clients work."""
    ss.open(folder, learner()).close()
    port, rng = free_port(), random.Random(seed)
    forks, load = Forks(folder, port), Load(port, clients, seed=seed)
    work = asyncio.create_task(load.run())
    hits = 0
    for how in stops:
        pid = await asyncio.to_thread(forks.start)
        await answers(port)
        await asyncio.sleep(rng.uniform(0.02, 0.6))
        os.kill(pid, how)
        hits += await asyncio.to_thread(forks.wait) in (0, signal.SIGKILL)
    pid = await asyncio.to_thread(forks.start)
    await answers(port)
    await asyncio.sleep(0.3)
    load.stop = True
    await work  # every client has its last answer
    os.kill(pid, signal.SIGTERM)
    if await asyncio.to_thread(forks.wait) != 0:
        load.wrong.append("the last service did not end as it should")
    forks.close()
    wrong = [*load.wrong[:5], *damage(folder, load.acknowledged)]
    return Ordeal(hits, len(load.acknowledged), wrong)


def damage(folder: Path, acknowledged: list[str]) -> list[str]:
    """What is wrong with what is left."""
    wrong = []
    found: list[str] = []
    plain = learner()
    for one in journal.chain(folder, 0):
        for k in range(len(one.records)):
            found.append(one.records[k]["ticket"].tobytes().hex())
            plain.observe(one.episode(k), one.played(k))
    if len(found) != len(set(found)):
        wrong.append(f"{len(found) - len(set(found))} episodes were counted twice")
    if lost := set(acknowledged) - set(found):
        wrong.append(f"{len(lost)} of {len(acknowledged)} acknowledged episodes are lost")
    if more := set(found) - set(acknowledged):
        wrong.append(f"{len(more)} episodes were counted that nobody was told of")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a torn end is cut off with a warning
        durable = ss.open(folder)
    with durable:
        bits = [files.checksum(each.arrays(), {}) for each in (durable.learner, plain)]
    if bits[0] != bits[1]:
        wrong.append("the learner is not what a replay of its journal gives")
    return wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Kills of a decision service under load.")
    parser.add_argument("--kills", type=int, default=200, help="at random times")
    parser.add_argument("--restarts", type=int, default=50, help="with SIGTERM")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        stops = [signal.SIGKILL] * given.kills + [signal.SIGTERM] * given.restarts
        random.Random(given.seed).shuffle(stops)
        print(asyncio.run(ordeal(Path(name, "it"), stops, given.seed)))
