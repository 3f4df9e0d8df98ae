"""What is proven, in plain words: which policy may be deployed, and what the episodes alone say of the violation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from ..evidence.certificate import Certificate
from .findings import Line, Study
from .text import SIGNS, earned, limit_name, listed, number

PROVEN = "proven"  # what a sentence about a certificate says where it decides
PATIENCE = 1e6  # episodes beyond which nobody asks how many more


def proving(study: Study) -> bool:
    """Whether some learner of it tries what it plans, and certifies."""
    if study.log is not None:  # of episodes that were simulated nothing is proven
        return False
    return any(about.get("epochs") for line in study.lines for about in line.abouts)


def certified_after(line: Line) -> str:
    """The episode after which something was certified first: the median over the seeds, and how many there are."""
    found = [about["certified"]["first"] for about in line.abouts if about.get("certified")]
    if not found:
        return "–"
    of = "" if len(found) == len(line.abouts) else f" ({len(found)} of {len(line.abouts)} seeds)"
    return f"{median(found):,.0f}{of}"


def to_deploy(study: Study) -> list[str]:
    """The policy that one would deploy: the best one certified, by the line that the study is about."""
    proven = [line for line in study.lines if any(a.get("certified") for a in line.abouts)]
    if not proven or study.log is not None:
        return []
    line = next(
        (each for each in proven if each.group.about["learner"] == "spot-epochs"), proven[0]
    )
    about = next(a for a in line.abouts if a.get("certified"))
    found = about["certified"]
    limits = listed(
        [
            f"{_called(study, i)}{number(value)} (limit {SIGNS[study.senses[i]]} "
            f"{number(study.limits(study.episodes)[i])}{_unit(study, i)})"
            for i, value in enumerate(found["constraints"])
        ]
    )
    confidence = 100.0 * found["certificate"]["confidence"]
    return [
        f"To deploy: the policy of {line.name} (seed {about['seed']}), certified with {confidence:g} % confidence "
        f"after episode {found['episode']:,}.",
        f"In truth it earns {earned(study, found['value'])}, and has {limits}.",
    ]


def _called(study: Study, i: int) -> str:
    return "" if study.names.limits is None else f"{study.called(i)} "


def _unit(study: Study, i: int) -> str:
    return f" {study.names.unit(i)}" if study.names.unit(i) else ""


def certificates(study: Study) -> list[str]:
    """Whether the last policies may be deployed, by what their own runs have seen: a sentence per line."""
    if study.log is not None:  # of episodes that were simulated nothing is proven
        return []
    said = []
    for line in study.lines:
        found = [
            Certificate.from_dict(about["certificate"])
            for about in line.abouts
            if about.get("certificate") is not None
        ]
        if found:
            said.append(f"{line.name}: {_certified(found)}.")
    return said


def _certified(found: Sequence[Certificate]) -> str:
    """One line's certificates, a policy each: how many are safe, unsafe or open, and by how much they are short."""
    of = "" if len(found) == 1 else f" with {{}} of {len(found)} seeds"
    unsafe = [one for one in found if "unsafe" in one.verdict]
    safe = [one for one in found if one.safe.all()]
    unknown = [one for one in found if one not in unsafe and one not in safe]
    parts = []
    if safe:
        parts.append(f"{PROVEN} safe{of.format(len(safe))}")
    if unsafe:
        parts.append(f"{PROVEN} unsafe{of.format(len(unsafe))}")
    if unknown:
        short_by = median(max(float(one.shortfall.max()), 0.0) for one in unknown)
        more = median(float(one.more.max()) for one in unknown)
        after = f"about {float(f'{more:.1e}'):,.0f} more episodes would decide it"
        if math.isinf(more):
            after = "more episodes like these would not decide it"
        elif more > PATIENCE:
            after = "more than a million episodes like these would be needed; try it instead"
        parts.append(f"not decided{of.format(len(unknown))} (short by {number(short_by)}; {after})")
    return ", ".join(parts)


def evidence(study: Study) -> list[str]:
    """What the episodes alone prove of the violation, at the end of the runs: a sentence per line."""
    if study.log is not None:  # of episodes that were simulated nothing is proven
        return []
    said = []
    for line in study.lines if study.metered else ():
        each = []
        for i in range(study.m):
            low, high = (
                float(line.columns[f"evidence_violation_{end}_{i}"][:, -1].mean()) / study.episodes
                for end in ("lower", "upper")
            )
            which = "" if study.m == 1 else f" of {limit_name(study, i)}"
            each.append(f"between {number(low)} and {number(high)}{which}")
        said.append(f"{line.name}: {listed(each)}.")
    return said
