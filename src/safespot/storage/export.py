"""The audit trail of a durable learner: what was seen and done, with what probability, under which policy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..arrays import MARKS
from ..errors import InvalidFile
from ..files import as_path
from ..signals.doubts import Doubts
from . import journal
from .episode_table import Columns, step_columns, write_rows


def export_episodes(path: str | Path, to: str | Path) -> int:
    """Write every episode in the journals of a durable learner to a file; returns how many.

    One row a step, Parquet or CSV by the ending of `to`: `episode` (from 1), `step`, `state`, `action`, `reward`,
    `constraint_0` …, `threshold_0` … (NULL: no sample), `next_state`, what is in doubt of the episode (`clipped`,
    `rejected`, `unfinished`, `hint_total`), the `propensity`, which is the probability that the policy gave the action
    (NULL: unknown), `policy`, the digest of that policy (NULL: the learner's own of that moment), and `policy_version`,
    the number of episodes that it had learned from (NULL: it is not the learner's). `read_log` reads all of it. What
    was in doubt of the learner before its first journal stands with the first episode.

    An episode that a service gave up has a row for each step that was decided, and NULL for what never came: rewards
    and constraints, the state after its last step, and the reward of that step, which counts with the state after it.

    The learner may be open elsewhere.

    Examples:
        >>> import safespot as ss
        >>> from pathlib import Path
        >>> problem, noise = ss.problems.make("bandit"), ss.streams(seed=0)
        >>> with ss.open("line-3", ss.Uniform(**problem.interface, episodes=500)) as learner:
        ...     learner.observe(ss.play(problem, learner.policy, noise, learner.episode))
        >>> ss.logs.export_episodes("line-3", "episodes.csv")
        1
        >>> print(Path("episodes.csv").read_text())
        episode,step,state,action,reward,constraint_0,threshold_0,next_state,clipped,rejected,unfinished,hint_total,propensity,policy,policy_version
        1,0,0,1,1.0,1.0,1.0,0,0,0,0,0,0.5,,0

    """
    folder = as_path(path)
    starts = list(journal.numbered(folder, "journal"))
    if not starts:
        raise InvalidFile(f"{folder} holds no durable learner: it has no journal.")
    episodes = 0

    def tables() -> Iterator[Columns]:
        nonlocal episodes
        for found in journal.chain(folder, starts[0]):
            if len(found.records):
                # Only doubts of the first are of something else than the episodes that are written.
                yield _columns(found.records, None if episodes else found.doubts)
                episodes += len(found.records)
        if not episodes:
            raise InvalidFile(f"{folder} has no episodes yet.")

    write_rows(as_path(to), tables())
    return episodes


def _columns(records: NDArray, before: Doubts | None) -> Columns:
    """Return the steps of some records that took place; the first says what was in doubt `before`."""
    n, H, m = records["constraints"].shape
    step = np.tile(np.arange(H), n)
    last = step == np.repeat(records["steps"].astype(np.int64) - 1, H)
    rewards = records["rewards"].reshape(-1)
    # A step counts with the state after it: without a reward, that state was never seen.
    unseen = last & np.isnan(rewards)
    next_state = np.where(unseen, journal.UNKNOWN, records["states"][:, 1:].reshape(-1))
    digests = [
        digest.tobytes().hex() if any(digest.tobytes()) else "" for digest in records["played"]
    ]
    marks = {name: np.repeat(records[name].astype(np.int64), H) for name in MARKS}
    if before is not None:
        marks["clipped"][:H] += before.clipped
        marks["rejected"][:H] += before.rejected
    steps = step_columns(
        episode=np.repeat(records["number"].astype(np.int64) + 1, H),
        step=step,
        state=records["states"][:, :-1].reshape(-1),
        action=records["actions"].reshape(-1),
        reward=rewards,
        constraints=records["constraints"].reshape(-1, m),
        thresholds=records["thresholds"].reshape(-1, m),
        next_state=next_state,
        marks=marks,
    )
    columns = {
        **steps,
        "propensity": np.ascontiguousarray(records["probabilities"]).reshape(-1),
        "policy": np.repeat(np.array(digests, object), H),
        "policy_version": np.repeat(records["version"], H),
    }
    took_place = step < np.repeat(records["steps"], H)
    return {name: column[took_place] for name, column in columns.items()}
