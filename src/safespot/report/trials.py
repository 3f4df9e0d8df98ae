"""A trial of what was proposed, where a simulator is there and learning certified nothing on its way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..evidence.certificate import Certificate
from ..experiments import Store
from ..judging.certify import certify
from ..model.oracle import evaluate
from .findings import Line, Study
from .text import earned


@dataclass(frozen=True)
class Tried:
    """What fresh episodes of one policy have shown."""

    study: Study
    line: Line  # whose policy it is, of the first seed
    proposed: bool  # whether the learner proposed it; else it is the one that it ended with
    value: float  # in truth
    constraints: list[float]  # [m]
    certificate: Certificate

    def sentences(self) -> list[str]:
        """The outcome."""
        c, which = self.certificate, "it proposes" if self.proposed else "it ended with"
        outcome = (
            "proven safe" if c.safe.all() else "proven unsafe" if "unsafe" in c.verdict else "not decided"
        )  # fmt: skip
        return [
            f"Nothing was certified on the way, so {self.line.name} had the policy that {which} tried: {outcome} after "
            f"{c.episodes:,} fresh episodes, with {100.0 * c.confidence:g} % confidence.",
            f"In truth it earns {earned(self.study, self.value)}.",
        ]

    def as_dict(self) -> dict[str, Any]:
        """The outcome, ready for JSON."""
        return {
            "line": self.line.name,
            "proposed": self.proposed,
            "value": self.value,
            "constraints": self.constraints,
            "certificate": self.certificate.as_dict(),
        }


def try_proposal(store: Store, study: Study) -> Tried | None:
    """Try the policy of the study's first line; None where something is certified, or limits move, or for a log."""
    if (
        study.drifts
        or study.log is not None
        or any(a.get("certified") for line in study.lines for a in line.abouts)
    ):
        return None
    line = study.lines[0]
    run = line.group.runs[0]
    proposal = store.policy(run, "proposal")
    policy = store.policy(run) if proposal is None else proposal
    if policy is None:  # too large to be kept
        return None
    delta = line.group.about["learner_options"].get("delta", 0.05)
    certificate = certify(study.problem, policy, episodes=max(2, study.episodes), delta=delta)
    found = evaluate(study.problem.cmdp, policy)
    return Tried(
        study, line, proposal is not None, found.value, found.constraints.tolist(), certificate
    )
