"""The desk: the one place where requests change anything.

    a request   is checked, written to the ledger, applied
    a start, an end, an expiry   are answered when the ledger is synced: one sync for all that wait
    the first episodes   that have ended or expired, in the order of their start, go to the journal together

Episodes may be open at the same time. Each keeps the policy of its start. They are counted in the order of their start,
so that short ones do not count first: one that is open holds back those that began after it, until it expires.

Requests are taken by one thread, the event loop's; syncs and the learner have one thread each, so that neither waits
for a plan.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ..arrays import Policy
from ..errors import InvalidOption, SafespotError, SolverError
from ..evidence.certificate import policy_digest
from ..storage.durable import DurableLearner
from ..storage.journal import TICKET, EpisodeRecord
from .commits import Commits
from .episodes import ENDED, OPEN, VOID, OpenEpisode, Outcome, Rules, started
from .ledger import Event, Ledger, as_line
from .names import Names
from .recovery import recover
from .refused import Refused

log = logging.getLogger("safespot.service")
T = TypeVar("T")

FINISHED = (
    10_000  # episodes that are remembered after they were counted, for requests that come again
)
HELD_BACK = 2**27  # bytes of the ledger's lines of episodes that wait behind open ones, about
GROUP = 256  # episodes that go to the journal together, at most
SHOWN = 1_000  # open episodes that are told of, at most
DISK_FAILED = (
    "the service has stopped after an error of its disk; start it again once the disk works."
)
DISK_FULL = (
    "the service has stopped because its disk is full; free some of it, and start the service again. Until then "
    "episodes can be expired, and nothing else."
)
FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}  # Windows lacks one


@dataclass(frozen=True)
class Settings:
    """What bounds a service."""

    expire_after: float = 86_400.0  # seconds without a request of an episode
    most_open: int = 1_000  # episodes


class Current(NamedTuple):
    """The policy that coming episodes play."""

    policy: Policy
    digest: str
    version: int  # how many episodes it has learned from


class Desk:
    """Open episodes of one durable learner, which this object has to itself from now on."""

    def __init__(self, durable: DurableLearner, names: Names, settings: Settings) -> None:
        self.durable, self.settings = durable, settings
        self.rules = Rules(durable.interface, names)
        self._alone = durable.learner.proofs.keeps_budget
        self.ledger = Ledger(durable.folder)
        self.counts: Counter[str] = Counter()
        self.commits = Commits(self.ledger, self.counts)
        self._random = random.Random()  # of the system's own entropy
        self._pending, self._finished, uptime = recover(self.ledger.events, durable)
        self.ledger.events.clear()
        # Time in which the service is down does not count: it could not have heard of anybody.
        self._began = time.monotonic() - uptime
        self._forget()
        self._open = sum(each.status == OPEN for each in self._pending.values())
        self._held_back_bytes = sum(
            size_of(each) for each in self._pending.values() if each.status != OPEN
        )
        self._thread = ThreadPoolExecutor(1, "learner")
        self._tasks: list[asyncio.Task[None]] = []
        self.current = self._current()

    # What is asked of it

    async def start(self, key: str, by: str) -> OpenEpisode:
        """Begin an episode; the same key of the same client is the same episode."""
        self._check_stopped()
        # The length keeps apart what two parts would otherwise have in common.
        told = f"{len(by)}:{by}:{key}".encode()
        name = hashlib.blake2b(told, digest_size=TICKET).hexdigest()
        if name in self._finished:
            raise Refused(409, "finished", "an episode was begun and finished with this key.")
        episode = self._pending.get(name)
        if episode is None:
            if self._alone and self._pending:
                raise Refused(
                    429,
                    "too-many",
                    "this learner keeps a budget: one episode at a time, until it is counted.",
                )
            if self._open >= self.settings.most_open:
                raise Refused(
                    429, "too-many", f"{self._open} episodes are open; end some of them first."
                )
            if self._held_back_bytes >= HELD_BACK:
                raise Refused(
                    429,
                    "held-back",
                    f"{self.held_back:,} episodes have ended and wait for one that began before them, and no more "
                    f"than {HELD_BACK:,} bytes of such episodes are kept. End that one, the first of GET /episodes, "
                    "or have it expired.",
                )
            now = self.current
            event = self._event("start", name, by, version=now.version, policy=now.digest)
            line = self._write(event, last=True)
            episode = self._pending[name] = started(event, line)
            episode.policy = now.policy
            self._open += 1
            self.counts["started"] += 1
        await self.commits.wait()
        return episode

    def decide(self, name: str, body: dict[str, Any], by: str) -> tuple[OpenEpisode, int, int]:
        """The action of a step, and the step."""
        self._check_stopped()
        episode = self._find(name)
        step, state, action, new = self.rules.decision(episode, body, self._random.random())
        if new:
            self._take(
                episode, self._event("decide", name, by, step=step, state=state, action=action)
            )
            self.counts["decisions"] += 1
        return episode, step, action

    def outcome(self, name: str, body: dict[str, Any], by: str) -> int:
        """What a step brought; returns the step."""
        self._check_stopped()
        episode = self._find(name)
        step, found, new = self.rules.outcome(episode, body)
        if new:
            self._take(episode, self._event("outcome", name, by, step=step, **_plain(found)))
            self.counts["outcomes"] += 1
        return step

    async def end(self, name: str, body: dict[str, Any], by: str) -> None:
        """It is over; when this returns, it is on the disk."""
        self._check_stopped()
        if name in self._finished:
            state = self.rules.names.state(body, self.rules.known.S)
            if self._finished[name] == state:
                return
            if self._finished[name] is None:
                raise Refused(
                    410, "expired", "this episode has expired; it was counted at its worst."
                )
            raise Refused(
                409, "contradiction", f"it ended in state {self._finished[name]}, not {state}."
            )
        episode = self._find(name)
        state, new = self.rules.end(episode, body)
        if new:
            try:
                whole = self.rules.as_episode(replace(episode, final=state))
                self.durable.learner.check(whole)
            except SafespotError as problem:  # its totals are not what was declared
                raise Refused(422, "invalid", str(problem)) from None
            self._take(episode, self._event("end", name, by, state=state), last=True)
            episode.observed = whole
            self._open -= 1
            self.counts["ended"] += 1
        await self.commits.wait()
        self._ready.set()

    async def expire(self, name: str, by: str) -> None:
        """Give an episode up: it counts at its worst from now on. On a full disk this is taken, too."""
        if not self.commits.disk_is_full:
            self._check_stopped()
        if name in self._finished and self._finished[name] is None:
            return
        episode = self._find(name)
        if episode.status == ENDED:
            raise Refused(409, "ended", "this episode has ended.")
        if episode.status == OPEN:
            self._expire(episode, by)
        if not self.stopped:
            with contextlib.suppress(Refused):  # the disk may turn out to be full now
                await self.commits.wait()
        if self.stopped:
            self._sync_on_full_disk()
        self._ready.set()

    async def ask(self, question: Callable[[DurableLearner], T]) -> T:
        """What the learner answers, between two episodes."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, question, self.durable)

    @property
    def open_episodes(self) -> list[dict[str, Any]]:
        """The first of those that are not counted yet, in the order of their start."""
        return [
            {
                "episode": each.id,
                "status": each.status,
                "decided": len(each.states),
                "outcomes": len(each.outcomes),
                "last_request": each.at,
            }
            for each in islice(self._pending.values(), SHOWN)
        ]

    @property
    def open(self) -> int:
        """How many episodes are open."""
        return self._open

    @property
    def held_back(self) -> int:
        """How many have ended or expired, and wait for one that began before them."""
        return len(self._pending) - self._open

    # How it goes on

    async def run(self) -> None:
        """Begin to sync, to learn and to look for what has expired."""
        self._ready = asyncio.Event()
        self._turn = asyncio.Lock()  # of whoever counts
        self._ready.set()
        work = (self.commits.run(self._needed, self._stop), self._learn(), self._watch())
        self._tasks = [asyncio.create_task(each) for each in work]
        for task in self._tasks:
            task.add_done_callback(self._ended)

    async def close(self) -> None:
        """Sync, learn what is ready, and close the files; open episodes are there when it is opened again."""
        if not self.stopped:
            with contextlib.suppress(Refused):
                await self.commits.wait()
                while not self.stopped and await self._learned(GROUP):
                    pass
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.commits.close()
        self._thread.shutdown()
        self.ledger.close()
        self.durable.close()

    async def _learn(self) -> None:
        """Count what is ready, in the order of the starts."""
        while True:
            await self._ready.wait()
            self._ready.clear()
            while not self.stopped and await self._learned(GROUP):
                pass

    async def _learned(self, most: int) -> bool:
        """Count the first episodes that are not open any more; returns whether there were any."""
        async with self._turn:
            return await self._count(most)

    async def _count(self, most: int) -> bool:
        group: list[OpenEpisode] = []
        for each in self._pending.values():
            if each.status == OPEN or len(group) == most:
                break
            group.append(each)
        if not group:
            return False
        played = [each for each in group if each.status != VOID]
        records = [self._record(each) for each in played]
        try:
            self.current = await self.ask(lambda durable: self._observe(durable, records))
        except (OSError, SafespotError) as problem:
            self._stop(problem)
            return False
        for each in group:
            del self._pending[each.id]
            self._held_back_bytes -= size_of(each)
            self._remember(each.id, each.final)
        self.counts["counted"] += len(played)
        self.counts["groups"] += 1
        return True

    def _observe(self, durable: DurableLearner, records: list[EpisodeRecord]) -> Current:
        try:
            durable.observe_group(records)
        except SolverError as problem:  # the episodes are counted; the next one plans again
            log.warning("no plan: %s", problem)
        return self._current()

    def _current(self) -> Current:
        policy = self.durable.policy
        return Current(policy, policy_digest(policy), self.durable.episode - 1)

    async def _watch(self) -> None:
        """Expire what was not heard of for too long."""
        while True:
            await asyncio.sleep(min(1.0, self.settings.expire_after / 4))
            late = self._uptime - self.settings.expire_after
            found = [e for e in self._pending.values() if e.status == OPEN and e.heard < late]
            if found and not self.stopped:
                with contextlib.suppress(Refused):
                    for each in found:
                        self._expire(each, "the service")
                    await self.commits.wait()
                self._ready.set()

    def _expire(self, episode: OpenEpisode, by: str) -> None:
        self._take(episode, self._event("expire", episode.id, by), last=True)
        self._open -= 1
        self.counts["expired"] += 1

    # How it is kept

    def _take(self, episode: OpenEpisode, event: Event, *, last: bool = False) -> None:
        episode.apply(event, self._write(event, last=last))
        if episode.status != OPEN:
            self._held_back_bytes += size_of(episode)

    def _write(self, event: Event, *, last: bool) -> bytes:
        try:
            line = self.ledger.write(event, last=last)
        except (OSError, SafespotError) as problem:
            self._stop(problem)
            raise Refused(503, "stopped", self.stopped) from None
        self.commits.ask_for_room()
        return line

    def _sync_on_full_disk(self) -> None:
        """Sync the ledger here and now, after a full disk has stopped the service."""
        if not self.commits.disk_is_full:
            self._check_stopped()
        try:
            self.ledger.sync()
        except OSError as exc:
            self._stop(exc)
            raise Refused(503, "stopped", self.stopped) from None

    def _event(self, what: str, name: str, by: str, **more: Any) -> Event:
        return {
            "what": what, "episode": name, "by": by, "at": round(time.time(), 3),
            "uptime": round(self._uptime, 3), **more,
        }  # fmt: skip

    @property
    def _uptime(self) -> float:
        """Seconds that the service was up since its ledger began: a clock that nobody sets."""
        return time.monotonic() - self._began

    def _find(self, name: str) -> OpenEpisode:
        episode = self._pending.get(name)
        if episode is None:
            if name in self._finished:
                raise Refused(409, "finished", "this episode was counted already.")
            raise Refused(404, "unknown", "there is no such episode.")
        return episode

    def _record(self, episode: OpenEpisode) -> EpisodeRecord:
        observed = episode.observed or self.rules.as_episode(episode)
        chances = self.rules.chances(episode, observed)
        return EpisodeRecord(
            observed, chances, episode.digest, bytes.fromhex(episode.id), episode.version,
            len(episode.states),
        )  # fmt: skip

    def _remember(self, name: str, final: int | None) -> None:
        self._finished[name] = final
        self._forget()

    def _forget(self) -> None:
        while len(self._finished) > FINISHED:
            del self._finished[next(iter(self._finished))]

    def _needed(self) -> Iterable[bytes]:
        """What the next file of the ledger begins with."""
        uptime = round(self._uptime, 3)
        yield as_line({"what": "finished", "uptime": uptime, "episodes": self._finished})
        for episode in self._pending.values():
            yield from episode.lines

    def _check_stopped(self) -> None:
        if self.stopped:
            raise Refused(503, "stopped", self.stopped)

    @property
    def stopped(self) -> str:
        """Why nothing more is taken; empty: it is."""
        return self.commits.stopped

    def _ended(self, task: asyncio.Task[None]) -> None:
        """None of its tasks ends by itself: without it requests would wait for ever, or count for nothing."""
        if not task.cancelled() and isinstance(problem := task.exception(), Exception):
            self._stop(problem)

    def _stop(self, problem: Exception) -> None:
        disk = isinstance(problem, (OSError, SafespotError))
        log.error("stopped: %s", problem, exc_info=None if disk else problem)
        full = isinstance(problem, OSError) and problem.errno in FULL
        why = "the service has failed; its log says why."
        if disk:
            why = DISK_FULL if full else DISK_FAILED
        self.commits.stop(why, disk_is_full=full)


def size_of(episode: OpenEpisode) -> int:
    """Return the bytes of an episode's lines."""
    return sum(map(len, episode.lines))


def _plain(found: Outcome) -> dict[str, Any]:
    return {
        "reward": found.reward,
        "constraints": found.constraints,
        "thresholds": found.thresholds,
    }


def open_desk(folder: Path, settings: Settings) -> Desk:
    """The desk of a folder's durable learner."""
    from ..storage.durable import open as open_learner
    from .names import read_names

    durable = open_learner(folder)
    try:
        if durable.learner.hands_back:
            raise InvalidOption(
                f"the guard in {folder} hands decisions back, so that there is no policy to serve; make it with a "
                "baseline that is a policy."
            )
        return Desk(durable, read_names(folder, durable.interface), settings)
    except BaseException:
        durable.close()
        raise
