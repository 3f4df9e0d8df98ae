"""What binning costs: SPOT on the patients of `dosing` themselves, cut into states in three ways.

`python -m studies.clinic` takes about five minutes on one core, and rewrites the table and the figure of
`results/clinic.md`.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

import safespot as ss
from safespot.data.logs import columns
from safespot.gym.clinic import Clinic
from safespot.problems.dosing import BLOCKS, DRUG_EDGES, TUMOR_EDGES

from . import record
from .record import machine, write_between

RESULTS = record.RESULTS / "clinic.json"
PAGE, FIGURE = record.RESULTS / "clinic.md", record.RESULTS / "figures" / "clinic.svg"
BINS: dict[str, Any] = {
    "4 × 2": [[0.1, 0.2, 0.3], [0.3]],
    "8 × 3": [list(TUMOR_EDGES), list(DRUG_EDGES)],  # those of `dosing`
    "16 × 5": [np.arange(1, 16) * 0.025, [0.1, 0.25, 0.45, 0.7]],
}
PATIENTS = 10_000  # in a log, and to see how a policy fares
EPISODES, SEEDS, WINDOW = 6_000, 10, 250
OPTIONS: dict[str, Any] = {
    "slack": 1.8, "bonus_scale": 0.003, "estimator": "pooled", "threshold_scale": 0.3,
    "policy_step": 0.02, "dual_step": 0.05,
}  # fmt: skip


def main() -> None:
    problem = ss.problems.make("dosing")
    best = ss.solve(problem.cmdp)
    found: dict[str, Any] = {
        "machine": machine(),
        "patients": PATIENTS, "episodes": EPISODES, "seeds": SEEDS, "options": OPTIONS,
        "table": {
            "promised": {"health": best.value, "doses": float(best.constraints[0])},
            "optimum": fare(clinic("8 × 3"), best.policy),
        },
        "bins": {bins: measure(bins) for bins in BINS},
    }  # fmt: skip
    RESULTS.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    write_between(PAGE, "clinic", table(found))
    draw(found)


def clinic(bins: str) -> ss.gym.BlackBox:
    """The patients as a black box; a dead one pays nothing and costs a full dose in every block that is left."""
    return ss.gym.BlackBox(
        Clinic(), horizon=BLOCKS, states=BINS[bins], endings=ss.gym.Ending(reward=0, constraints=1)
    )


def measure(bins: str) -> dict[str, Any]:
    """The optimum of what a log shows and how it fares, and ten learners."""
    box = clinic(bins)
    log = ss.read_log(columns(play(box, None)), **box.interface)
    model = ss.logs.empirical_model(log, stationary=True)
    best = ss.solve(model.cmdp)
    learned = np.array([learn(box, seed) for seed in range(SEEDS)])  # [seeds, episodes, 2]
    last = learned[:, -EPISODES // 10 :].mean(axis=1)
    spread = last.std(axis=0, ddof=1) / np.sqrt(SEEDS)
    windows = learned.reshape(SEEDS, -1, WINDOW, 2).mean(axis=2)
    print(bins, last.mean(axis=0), flush=True)
    return {
        "states": box.interface["states"],
        "promised": {"health": best.value, "doses": float(best.constraints[0])},
        "optimum": fare(box, best.policy),
        "learned": dict(zip(("health", "doses"), last.mean(axis=0).tolist(), strict=True)),
        "errors": dict(zip(("health", "doses"), spread.tolist(), strict=True)),
        "windows": windows.round(4).tolist(),
    }


def play(box: ss.gym.BlackBox, policy: Any) -> list[ss.Episode]:
    """Patients under a policy; None draws every dose at random."""
    f = box.interface
    if policy is None:
        policy = np.full((f["horizon"], f["states"], f["actions"]), 1.0 / f["actions"])
        policy[:, -1] = np.eye(f["actions"])[0]  # nothing is decided for the dead
    rng = ss.streams(1).actions
    return [box.play(policy, rng.random(BLOCKS), 1 if t == 0 else None) for t in range(PATIENTS)]


def fare(box: ss.gym.BlackBox, policy: Any) -> dict[str, float]:
    """Mean health and doses of patients under a policy."""
    played = play(box, policy)
    return {
        "health": float(np.mean([e.rewards.sum() for e in played])),
        "doses": float(np.mean([e.constraints.sum() for e in played])),
    }


def learn(box: ss.gym.BlackBox, seed: int) -> Any:
    """What every patient of a learner got, ``[episodes, 2]``."""
    learner = ss.Spot(**box.interface, episodes=EPISODES, **OPTIONS)
    run = ss.learn(box, learner, seed=seed, record="all")
    return np.c_[run.values, run.constraint_values[:, 0]]


def table(found: dict[str, Any]) -> str:
    """The table of the page."""
    rows = [("table of `dosing`", 25, {**found["table"], "learned": None})]
    rows += [(f"patients, {bins}", of["states"], of) for bins, of in found["bins"].items()]
    lines = [
        "| bins of tumor × drug | states | its optimum promises: health, doses | the same policy with patients "
        "| SPOT on patients, last tenth |",
        "|---|---:|---|---|---|",
    ]
    for name, states, of in rows:
        pairs = [f"{of[k]['health']:.2f}, {of[k]['doses']:.2f}" for k in ("promised", "optimum")]
        learned = of["learned"] and (
            f"{of['learned']['health']:.2f} ± {of['errors']['health']:.2f}, "
            f"{of['learned']['doses']:.2f} ± {of['errors']['doses']:.2f}"
        )
        lines.append(f"| {name} | {states} | {' | '.join(pairs)} | {learned or ''} |")
    return "\n".join(lines)


def draw(found: dict[str, Any]) -> None:
    """Health and doses against patients."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    style: Any = {
        "svg.hashsalt": "clinic", "svg.fonttype": "none", "font.size": 9, "font.family": "sans-serif",
        "axes.spines.top": False, "axes.spines.right": False,
    }  # fmt: skip
    looks = ("#0072B2", ":"), ("#D55E00", "-"), ("#009E73", "--")  # told apart without color too
    with plt.rc_context(style):
        figure, panels = plt.subplots(1, 2, figsize=(8.4, 3.3), layout="constrained")
        for (bins, of), (color, line) in zip(found["bins"].items(), looks, strict=True):
            windows = np.array(of["windows"])
            episodes = WINDOW * (1 + np.arange(windows.shape[1]))
            for k, axes in enumerate(panels):
                low, high = windows[:, :, k].min(axis=0), windows[:, :, k].max(axis=0)
                axes.fill_between(episodes, low, high, color=color, alpha=0.15, linewidth=0)
                axes.plot(
                    episodes, windows[:, :, k].mean(axis=0), line, color=color, linewidth=1.6,
                    label=f"{bins} bins",
                )  # fmt: skip
        promised, optimum = found["table"]["promised"], found["table"]["optimum"]
        for axes, key, title in zip(
            panels,
            ("health", "doses"),
            ("Health per patient (blocks)", "Doses per patient"),
            strict=True,
        ):
            axes.axhline(promised[key], color="black", linewidth=0.8)
            axes.axhline(optimum[key], color="black", linewidth=0.8, linestyle=(0, (6, 3)))
            says = "the table's optimum" if key == "health" else "the tolerance"
            for words, level in (
                (says, promised[key]),
                ("that policy with patients", optimum[key]),
            ):
                axes.annotate(
                    words, (0.98, level), xycoords=("axes fraction", "data"), fontsize=8, ha="right",
                    va="bottom", xytext=(0, 2), textcoords="offset points",
                )  # fmt: skip
            axes.set_title(title, fontsize=9, loc="left")
            axes.set_xlabel("patients")
        panels[1].legend(frameon=False, loc="upper center")
        figure.savefig(FIGURE, metadata={"Date": None})
        plt.close(figure)


if __name__ == "__main__":
    main()
