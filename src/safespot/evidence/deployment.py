"""A policy to deploy: the table, what its numbers stand for, and what is proven of it, in one file.

Nothing of the learner is needed to use it, and nothing heavy is imported to load it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Float, as_count, as_policy, frozen
from ..display import Displayed
from ..errors import InvalidFile, InvalidModel, InvalidOption, SafespotError
from ..files import read_arrays, write_arrays
from ..names import UNNAMED, Names, make_names
from ..observations import numbering
from .certificate import Certificate


@dataclass(frozen=True, eq=False, repr=False)
class Policy(Displayed):
    """What to do in each state and step, and what is known of it.

    `array` is ``[H,S,A]``. `discretizer` says which state an observation is; without one, observations are the numbers
    of states. A certificate belongs to this very array, to the last bit.

    Examples:
        >>> import numpy as np
        >>> import safespot as ss
        >>> problem = ss.problems.make("machine")
        >>> run = ss.learn(problem, ss.SpotEpochs(**problem.interface), episodes=2000)
        >>> proven = run.learner.certified
        >>> best = ss.Policy(proven.policy, problem.names, proven.certificate)
        >>> best.status
        'certified'
        >>> best.save("machine.safetensors")
        >>> policy = ss.Policy.load("machine.safetensors")  # elsewhere, later, without the learner
        >>> action = policy.predict(0, step=0, rng=np.random.default_rng(0))
        >>> policy.names.action(action)
        'gentle'

    """

    array: Float  # [H, S, A]
    names: Names = UNNAMED
    certificate: Certificate | None = None
    discretizer: Any | None = None

    def __post_init__(self) -> None:
        shape = np.shape(self.array)
        if len(shape) != 3:
            raise InvalidModel(f"a policy is an array [H,S,A], got one of shape {shape}.")
        mask = np.broadcast_to(np.True_, shape)
        object.__setattr__(self, "array", frozen(as_policy(self.array, shape, mask)))
        if self.certificate is not None and not self.certificate.covers(self.array):
            raise InvalidOption("the certificate is about another policy than this one.")
        if self.discretizer is not None and self.discretizer.states > shape[1]:
            raise InvalidOption(
                f"the discretizer has {self.discretizer.states} states; the policy has {shape[1]}."
            )

    @property
    def status(self) -> str:
        """'certified': proven to keep every limit; 'proposed': the best guess, of which nothing is proven."""
        proven = self.certificate is not None and bool(self.certificate.safe.all())
        return "certified" if proven else "proposed"

    def predict(self, observation: Any, step: int, rng: np.random.Generator | None = None) -> int:
        """The number of the action to take at that step (from 0) of the episode.

        It is drawn with the policy's probabilities, on which its certificate rests; without `rng`, anew each time.
        """
        H, S, _ = self.array.shape
        step = as_count("step", step, least=0, error=InvalidOption)
        state = (
            as_count("observation", observation, least=0, error=InvalidOption)
            if self.discretizer is None
            else self.discretizer.number(observation)
        )
        if step >= H or state >= S:
            raise InvalidOption(f"step {step} and state {state}; there are {H} steps, {S} states.")
        row = self.array[step, state]
        drawn = np.random.default_rng() if rng is None else rng
        chosen = int(np.searchsorted(np.cumsum(row), drawn.random(), side="right"))
        return min(chosen, int(np.flatnonzero(row)[-1]))

    def with_discretizer(self, discretizer: Any | None) -> Policy:
        """The same policy for observations that are not numbers of states yet."""
        return replace(self, discretizer=discretizer)

    def save(self, path: str | Path) -> None:
        """Write everything to one file; no code is ever run from it."""
        recipe = None
        if self.discretizer is not None:
            recipe = getattr(self.discretizer, "recipe", None)
            if recipe is None:
                raise InvalidOption(
                    "this policy's discretizer is a function of your own, which no file can hold. Save "
                    "policy.with_discretizer(None), and number the observations yourself."
                )
        about = {
            "names": self.names.arguments,
            "certificate": None if self.certificate is None else self.certificate.as_dict(),
            "discretizer": recipe,
        }
        write_arrays(path, "policy", {"policy": self.array}, about)

    @classmethod
    def load(cls, path: str | Path) -> Policy:
        """Read what `save` wrote; a damaged file is an `InvalidFile`."""
        arrays, about = read_arrays(path, "policy")
        try:
            array, proven, recipe = arrays["policy"], about["certificate"], about["discretizer"]
            _, S, A = array.shape
            certificate = None if proven is None else Certificate.from_dict(proven)
            limits = about["names"].get("limit_names") or ()
            units = (about["names"].get("units") or {}).get("constraints") or ()
            return cls(
                array,
                make_names((S, A, len(limits) or len(units)), **about["names"]),
                certificate,
                None if recipe is None else numbering(recipe),
            )
        except (SafespotError, KeyError, TypeError, ValueError, AttributeError) as problem:
            raise InvalidFile(f"{path} does not describe a policy: {problem}") from None

    def _facts(self) -> dict[str, Any]:
        H, S, A = self.array.shape
        facts: dict[str, Any] = {"status": self.status, "steps": H, "states": S, "actions": A}
        if self.certificate is not None:
            facts["confidence"] = self.certificate.confidence
        return facts

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Float:
        """So that it goes wherever a policy ``[H,S,A]`` does."""
        return np.array(self.array, dtype=dtype) if copy else np.asarray(self.array, dtype=dtype)


def as_array(policy: ArrayLike | Policy) -> Any:
    """The array of a policy, whichever way it was given."""
    return policy.array if isinstance(policy, Policy) else policy
