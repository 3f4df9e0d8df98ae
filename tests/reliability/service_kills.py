"""kill -9 and restarts of a decision service under load: nothing acknowledged is lost, nothing is counted twice.

python -m tests.reliability.service_kills [--kills 200] [--seed 0]
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import subprocess
import tempfile
import warnings
from pathlib import Path

import safespot as ss
from safespot import files
from safespot.storage import journal
from tests.reliability.service_load import Load, answers, free_port, served


def learner() -> ss.Learner:
    """What is served: it compiles quickly, and every episode changes its state."""
    return ss.Uniform(states=4, actions=3, horizon=3, constraints=1, episodes=10**7)


async def ordeal(
    folder: Path, stops: int, seed: int = 0, how: int = signal.SIGKILL, clients: int = 8
) -> list[str]:
    """Stop the service so often while clients work; what went wrong."""
    ss.open(folder, learner()).close()
    rng, port = random.Random(seed), free_port()
    load = Load(port, clients, seed=seed)
    process = served(folder, port)
    work = None
    for _ in range(stops):
        await answers(port, process)
        if work is None:
            work = asyncio.create_task(load.run())
        await asyncio.sleep(rng.uniform(0.05, 0.6))
        process.send_signal(how)
        await asyncio.to_thread(process.wait)
        _close(process)
        process = served(folder, port)
    await answers(port, process)
    await asyncio.sleep(0.5)
    load.stop = True
    assert work is not None
    await work  # every client has its last answer
    process.send_signal(signal.SIGTERM)
    await asyncio.to_thread(process.wait)
    _close(process)
    return [*load.wrong[:5], *damage(folder, load.acknowledged)]


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


def _close(process: subprocess.Popen[str]) -> None:
    for stream in (process.stdout, process.stderr):
        assert stream is not None
        stream.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Kills of a decision service under load.")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        print(asyncio.run(ordeal(Path(name, "it"), given.kills, given.seed)) or "nothing is wrong")
