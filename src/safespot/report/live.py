"""The live page: what is known of a learner at work, or of a sweep, as one JSON document and a page that shows it.

    learner_document(learner, meter, curve)     limits, meter, epochs and trials, certificates, budget
    store_document(store)                       what is finished, and the lines of each study so far
    live_page("state.json")                     HTML that asks for such a document every second and draws it

Both documents have `kind`, `title` and `said`, the sentences that come first. Nothing here changes what it looks at.
"""

from __future__ import annotations

from html import escape
from typing import Any

from ..arrays import Float
from ..evidence.meter import SafetyMeter
from ..experiments import Store
from ..experiments.locks import at_work
from ..learners import Learner
from ..learners.history import table
from ..storage.following import Curve
from . import panels, terminal
from .findings import read
from .page import document
from .text import listed, number, verdict
from .vega import CONFIG, Spec


def learner_document(learner: Learner, meter: SafetyMeter, curve: Curve) -> dict[str, Any]:
    """What is known after the episodes so far, ready for JSON: all of it follows from the learner and its meter.

    Examples:
        >>> import safespot as ss
        >>> from safespot.report.live import learner_document
        >>> from safespot.storage.following import Following
        >>> problem, noise = ss.problems.make("machine"), ss.streams(seed=0)
        >>> with ss.open("line-3", ss.SpotEpochs(**problem.interface)) as learner:
        ...     for t in range(1, 101):
        ...         learner.observe(ss.play(problem, learner.policy, noise, t))
        >>> watched = Following("line-3")
        >>> document = learner_document(watched.learner, watched.meter, watched.curve)
        >>> document["episodes"], document["limits"][0]["sense"], document["epochs"][0]["kind"]
        (100, '<=', 'first')

    """
    f, finished = learner.interface, learner.episode - 1
    limits = [_limit(learner, meter, i) for i in range(f.m)]
    proofs = learner.proofs
    certificates = [_certified(each) for each in proofs.certificates]
    return {
        "kind": "learner",
        "title": learner.name,
        "said": _said(learner, meter, limits, certificates),
        "learner": learner.name,
        "episodes": finished,
        "stance": learner.options.stance,
        "confidence": 1.0 - learner.options.delta,
        "sizes": {"states": f.S, "actions": f.A, "steps": f.H, "limits": f.m},
        "limits": limits,
        "reward": _ends(meter.reward_bounds) if meter.episodes else None,
        "epochs": [{"group": 0, **part} for part in table(proofs.history, finished)],
        "certificates": certificates,
        "budget": _budget(learner),
        "doubts": list(learner.doubts.sentences()),
        "curve": _curve(curve, meter),
        "charts": _charts(learner, limits),
    }


def store_document(store: Store) -> dict[str, Any]:
    """What a sweep has come to so far."""
    finished = len(store.finished())
    working, left = (len(runs) for runs in at_work(store.claims))
    studies = read(store) if finished else []
    runs = f"{finished:,} {'run' if finished == 1 else 'runs'} finished"
    said = [f"{runs}, {working:,} at work." if working else f"{runs}; nobody is at work."]
    if left:
        begun = "1 was" if left == 1 else f"{left:,} were"
        said.append(f"{begun} begun and left; the same command resumes.")
    return {
        "kind": "store",
        "title": store.path.name,
        "said": said,
        "finished": finished,
        "working": working,
        "left": left,
        "studies": [
            {**terminal.as_dict(study), "said": verdict(study), "table": terminal.as_table(study)}
            for study in studies
        ],
    }


def live_page(source: str, title: str) -> str:
    """A page that shows the document at an address, and asks for it again every second.

    The address is relative to the page's own. A fragment ``#token=…`` of the page is sent along as a bearer token.
    """
    body = f"""<body data-source="{escape(source)}">
<header><h1>{escape(title)}</h1><p class="lead" id="state" role="status">asking …</p></header>
<noscript><p class="note">This page needs JavaScript.</p></noscript>
<main id="shown"></main>
<footer>Read-only. Bounds hold at every moment, however often one looks.</footer>"""
    return document(title, body, "live.js")


def _limit(learner: Learner, meter: SafetyMeter, i: int) -> dict[str, Any]:
    """What is known of limit i, and of how much it was violated."""
    f = learner.interface
    known = [float(end[i]) for end in learner.threshold_bounds]
    summed = [float(end[i]) for end in meter.violation_bounds] if meter.episodes else [0.0, 0.0]
    return {
        "name": f.names.limit(i),
        "unit": f.names.unit(i),
        "sense": f.units.senses[i],
        "given": learner.options.thresholds is not None,
        "bounds": known,
        "violation": summed,
        "violation_mean": [float(end[i]) for end in meter.mean_bounds],
    }


def _certified(found: Any) -> dict[str, Any]:
    c = found.certificate
    return {
        "episode": found.episode,
        "rests_on": c.episodes,
        "verdict": list(c.verdict),
        "room": [[float(end[i]) for end in c.difference_bounds] for i in range(len(c.verdict))],
        "reward": _ends(c.reward_bounds),
        "confidence": c.confidence,
        "policy": c.policy_digest[:16],
    }


def _budget(learner: Learner) -> dict[str, Any] | None:
    """What a guard has spent of its budget; None: there is no guard."""
    spending, names = learner.proofs.spending, learner.interface.names
    if spending is None:
        return None
    return {
        "said": f"The learner played {100.0 * spending.share:.1f} % of the episodes, the baseline the others. "
        f"The baseline is proven: {listed(spending.baseline_verdict)}.",
        "limits": [
            {
                "name": names.limit(i),
                "budget": float(budget),
                "spent": [float(end[i]) for end in spending.spent],
            }
            for i, budget in enumerate(spending.budget)
        ],
    }


def _said(
    learner: Learner, meter: SafetyMeter, limits: list[dict[str, Any]], certificates: list[Any]
) -> list[str]:
    """The first sentences: how far it is, what is proven of the violation, what is certified."""
    said = [f"{learner.episode - 1:,} episodes."]
    if meter.episodes:
        each = [
            f"between {number(low)} and {number(high)}"
            + ("" if len(limits) == 1 else f" of {limit['name']}")
            for limit in limits
            for low, high in [limit["violation_mean"]]
        ]
        said.append(f"Violation an episode so far {listed(each)}; below 0 is room.")
    if certificates:
        said.append(f"A policy was certified first after episode {certificates[0]['episode']:,}.")
    elif learner.proofs.tries:
        said.append("No policy is certified yet.")
    return said


def _ends(bounds: tuple[float, float]) -> list[float]:
    return [float(end) for end in bounds]


def _curve(curve: Curve, meter: SafetyMeter) -> list[dict[str, float]]:
    """The rows of the meter's chart; the last one is now."""
    episodes, bounds = list(curve.episodes), list(curve.bounds)
    if meter.episodes and episodes[-1:] != [meter.episodes]:
        episodes.append(meter.episodes)
        bounds.append(meter.violation_bounds)
    return [
        {"episode": t, **_columns("lower", low), **_columns("upper", high)}
        for t, (low, high) in zip(episodes, bounds, strict=True)
    ]


def _columns(end: str, values: Float) -> dict[str, float]:
    return {f"{end}_{i}": float(value) for i, value in enumerate(values)}


def _charts(learner: Learner, limits: list[dict[str, Any]]) -> dict[str, Spec]:
    made = {
        f"meter-{i}": panels.meter(f"violation of {limit['name']}, summed", i)
        for i, limit in enumerate(limits)
    }
    if learner.proofs.tries:
        made["epochs"] = panels.epochs([learner.name])
    return {name: {**chart, "config": CONFIG} for name, chart in made.items()}
