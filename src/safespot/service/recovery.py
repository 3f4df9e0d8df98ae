"""What a service knows again when it is opened: the ledger says what was asked, the journal what was counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..evidence.certificate import policy_digest
from ..storage.durable import DurableLearner
from .episodes import OpenEpisode, started
from .ledger import Event, as_line


class Recovered(NamedTuple):
    """Episodes by their ids, in the order of their start."""

    pending: dict[str, OpenEpisode]  # not counted yet
    finished: dict[str, int | None]  # counted: the state after the last step; None: expired
    uptime: float  # seconds that the service was known to be up, all in all


def recover(events: Iterable[Event], durable: DurableLearner) -> Recovered:
    """Go through the events of the ledger's last file, and take away what the journal has."""
    pending: dict[str, OpenEpisode] = {}
    finished: dict[str, int | None] = {}
    uptime = 0.0
    for event in events:
        uptime = max(uptime, event["uptime"])
        if event["what"] == "finished":
            finished = dict(event["episodes"])
        elif event["what"] == "start":
            pending[event["episode"]] = started(event, as_line(event))
        elif event["episode"] in pending:
            pending[event["episode"]].apply(event, as_line(event))
    if pending:
        first = min(episode.version for episode in pending.values())
        counted = durable.tickets_since(first)
        for name, episode in list(pending.items()):
            # A key that was forgotten and used again names another episode, which was not counted then.
            if counted.get(bytes.fromhex(name), -1) >= episode.version:
                del pending[name]
                finished[name] = episode.final
    _find_policies(pending, durable)
    return Recovered(pending, finished, uptime)


def _find_policies(pending: Mapping[str, OpenEpisode], durable: DurableLearner) -> None:
    """The policies of the episodes that are still there, each under its digest."""
    policy = durable.policy
    found = {policy_digest(policy): policy}
    missing = {e.version for e in pending.values() if e.digest not in found}
    for policy in durable.policies_after(missing).values() if missing else ():
        found[policy_digest(policy)] = policy
    for episode in pending.values():
        episode.policy = found.get(episode.digest)
