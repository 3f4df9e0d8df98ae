"""The audit trail of a durable learner: what was seen and done, with what probability, under which policy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..arrays import MARKS
from ..errors import InvalidFile
from ..evidence.interface import Doubts
from ..files import as_path
from . import journal
from .episode_table import Columns, step_columns, write_rows


def export_episodes(path: str | Path, to: str | Path) -> int:
    """Write every episode in the journals of a durable learner to a file; returns how many.

    One row a step, Parquet or CSV by the ending of `to`: `episode` (from 1), `step`, `state`, `action`, `reward`,
    `constraint_0` …, `threshold_0` … (NULL: no sample), `next_state`, what is in doubt of the episode (`clipped`,
    `rejected`, `unfinished`, `hint_total`), the `propensity`, which is the probability that the policy gave the action
    (NULL: unknown, somebody else's), and `policy_version`, the number of episodes that this policy had learned from.
    `read_log` reads all of it. What was in doubt of the learner before its first journal stands with the first episode.

    The learner may be open elsewhere.

    Examples:
        >>> import safespot as ss
        >>> from pathlib import Path
        >>> problem, noise = ss.problems.make("bandit"), ss.streams(seed=0)
        >>> with ss.open("line-3", ss.Uniform(**problem.interface, episodes=500)) as learner:
        ...     learner.observe(ss.play(problem, learner.policy, noise, learner.episode))
        >>> ss.export_episodes("line-3", "episodes.csv")
        1
        >>> print(Path("episodes.csv").read_text())
        episode,step,state,action,reward,constraint_0,threshold_0,next_state,clipped,rejected,unfinished,hint_total,propensity,policy_version
        1,0,0,1,1.0,1.0,1.0,0,0,0,0,0,0.5,0

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
    """The steps of some records; the first of them says what was in doubt `before`."""
    n, H, m = records["constraints"].shape
    version = np.repeat(records["number"].astype(np.int64), H)
    marks = {name: np.repeat(records[name].astype(np.int64), H) for name in MARKS}
    if before is not None:
        marks["clipped"][:H] += before.clipped
        marks["rejected"][:H] += before.rejected
    steps = step_columns(
        episode=version + 1,
        step=np.tile(np.arange(H), n),
        state=records["states"][:, :-1].reshape(-1),
        action=records["actions"].reshape(-1),
        reward=records["rewards"].reshape(-1),
        constraints=records["constraints"].reshape(-1, m),
        thresholds=records["thresholds"].reshape(-1, m),
        next_state=records["states"][:, 1:].reshape(-1),
        marks=marks,
    )
    return {
        **steps,
        "propensity": np.ascontiguousarray(records["probabilities"]).reshape(-1),
        "policy_version": version,
    }
