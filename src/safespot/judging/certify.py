"""`certify`: one verb for every verdict on a policy's safety.

| source | without a policy | with one |
|---|---|---|
| a run | what was played | |
| a durable learner | what was played | what its data say of the policy |
| a learner | what its data say of its policy for the coming episode | what they say of this one |
| a log | the practice that made it | a trial: the policy that made it |
| a problem, an environment, episodes | | a trial |
"""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from ..arrays import as_count
from ..data.logs import Log
from ..errors import InvalidOption
from ..evidence.certificate import Certificate
from ..evidence.counter import as_delta
from ..learners.learner import Learner
from ..signals.limits import Limits
from ..storage.durable import DurableLearner
from ..training.run import Run
from .model_bounds import judge_by_data
from .played import judge_played, past_of_durable, past_of_log, past_of_run
from .trial import open_source, try_policy

DELTA = 0.05


def certify(
    source: Any,
    policy: ArrayLike | None = None,
    *,
    limits: Limits = None,
    episodes: int | None = None,
    most: int | None = None,
    delta: float | None = None,
    seed: int = 0,
    **declarations: Any,
) -> Certificate:
    """Return what is proven of a policy's safety, and what that rests on.

    - *What was played*: of a run, a durable learner, or a log. The certificate is about the policy that played, about a
      mixture (`certificate.since` is its first episode, ``run.mixture(certificate)`` draws policies), or about the
      practice behind a log.
    - *A trial*: of a policy in a problem or an environment, or in records of its episodes. It stops as soon as every
      constraint is decided. An action that the policy never takes is an `InvalidEpisode`.
    - *What a learner's data say* of any policy: wide bounds, for all policies at once.

    Signals that were cut off (`BlackBox(clip=True)`) and episodes that a log left out prove nothing about what they
    were: the certificate then says "unknown", and why.

    Args:
        source: a `Run`, a `Log`, a learner, a durable one; a `Problem`; a `BlackBox`, or an environment with the
            declarations of one; or `Episode` records of the policy, with their ``interface=``.
        policy: ``[H,S,A]`` or ``[S,A]``, fixed before its episodes; for a learner's data it need not be.
        limits: of a trial or a log, what is known of the limits (`Limit`: thresholds, totals) beyond what the source
            declares; one for all constraints, or one each. A learner has its own.
        episodes: of a trial, the number that it is sharpest for: what it may take (`episodes_needed`), not the most
            that could be played. By default 4,000, or as many as there are.
        most: of a trial, the largest number; by default `episodes`.
        delta: the confidence is 1 - delta; by default 0.05, and a learner's own where its data are asked.
        seed: of a trial's noise, which differs from that of any training with the same seed.
        **declarations: of a `BlackBox`; of records, ``interface=problem.interface``.

    Examples:
        >>> import safespot as ss
        >>> problem = ss.problems.make("machine")
        >>> gentle, fast = [[1, 0], [1, 0]], [[0, 1], [0, 1]]
        >>> ss.certify(problem, gentle).verdict  # a trial
        ('safe',)
        >>> ss.certify(problem, fast, episodes=1000).verdict
        ('unsafe',)
        >>> run = ss.learn(problem, ss.Fixed(**problem.interface, episodes=500, policy=gentle))
        >>> certificate = ss.certify(run)  # what was played
        >>> print(certificate.verdict, certificate.subject, certificate.covers(run.policy))
        ('safe',) policy True
        >>> ss.certify(ss.Spot(**problem.interface, episodes=500, slack=1.0), gentle).verdict  # what its data say: none
        ('unknown',)

    """
    trial = {"episodes": episodes, "most": most, **declarations}
    share = as_delta(DELTA if delta is None else delta)
    if isinstance(source, Run):
        _refuse("a run was played by its own policies", policy=policy, **trial, limits=limits)
        return judge_played(past_of_run(source), share)
    if isinstance(source, Learner | DurableLearner):
        _refuse("a learner has its own declarations, and nothing is played", **trial, limits=limits)
        if isinstance(source, DurableLearner) and policy is None:
            return judge_played(past_of_durable(source), share)
        learner = source.learner.guarded
        if delta not in (None, learner.options.delta):
            _refuse(f"a learner's data have its own, {learner.options.delta:g}", delta=delta)
        return judge_by_data(learner, policy)
    if isinstance(source, Log) and policy is None:
        _refuse("a log without a policy is no trial", **trial)
        return judge_played(past_of_log(source, limits), share)
    if policy is None:
        raise InvalidOption(
            "say of which policy: certify(source, policy). Without one it takes a Run, a Log or a learner, got "
            f"{type(source).__name__}."
        )
    seed = as_count("seed", seed, least=0, most=None, error=InvalidOption)
    opened = open_source(source, policy, seed, limits, declarations)
    return try_policy(opened, share, episodes, most)


def _refuse(reason: str, **arguments: Any) -> None:
    """Raise where something was passed that does not go with this source."""
    names = [name for name, value in arguments.items() if value is not None]
    if names:
        raise InvalidOption(f"unexpected {', '.join(names)}: {reason}.")
