"""Mixtures: policies of past episodes, of which one is drawn for every episode."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ..arrays import Episode, Policy, frozen
from ..errors import InvalidOption
from ..evidence.certificate import Certificate

DRAWN = 64  # policies that are found at once

Replay = Callable[[], Iterator[tuple[Policy | None, Episode]]]  # None: someone else's policy


class Mixture:
    """Policies of past episodes. To deploy it, `sample` one for every episode; their average is another policy.

    Examples:
        >>> import numpy as np
        >>> import safespot as ss
        >>> problem = ss.problems.make("machine")
        >>> learner = ss.Spot(**problem.interface, episodes=200, rho=2.4, bonus_scale=0.01)
        >>> run = ss.learn(problem, learner)
        >>> mixture = run.mixture(ss.certify(run))
        >>> mixture.sample(np.random.default_rng(0)).shape
        (2, 2, 2)

    """

    def __init__(self, certificate: Certificate, replay: Replay, first: int, played: int) -> None:
        since, last = certificate.since, first + played - 1
        if since is None or certificate.subject == "practice":
            raise InvalidOption(
                f"this certificate is about a {certificate.subject}, of whose episodes none can be gone through again: "
                "a mixture is made of a certificate of what this learner played."
            )
        if since < first or since + certificate.episodes - 1 > last:
            raise InvalidOption(
                f"the certificate is about episodes from {since} on that are none of these, {first} to {last}."
            )
        self.certificate = certificate
        self._replay, self._first = replay, first
        self._drawn = list[Policy]()

    def sample(self, rng: np.random.Generator) -> Policy:
        """Return one of the policies ``[H,S,A]``, as it was played; each episode's is as likely.

        Policies are not kept: the episodes are gone through again, for several draws at once.
        """
        if not isinstance(rng, np.random.Generator):
            raise InvalidOption(
                f"rng must be a generator of random numbers, numpy.random.default_rng(…), got {rng!r}."
            )
        if not self._drawn:
            draws = rng.integers(self.certificate.episodes, size=DRAWN)
            policies = self._policies(set(draws.tolist()))
            self._drawn.extend(policies[int(draw)] for draw in draws[::-1])
        return self._drawn.pop()

    def _policies(self, wanted: set[int]) -> dict[int, Policy]:
        """Return the policies of these of the certificate's episodes, counted from 0."""
        policies = dict[int, Policy]()
        count = 0
        for number, (policy, _) in enumerate(self._replay(), self._first):
            if policy is None or number < (self.certificate.since or 0):
                continue
            if count in wanted:
                policies[count] = frozen(policy.copy())
            count += 1
            if len(policies) == len(wanted):
                break
        return policies
