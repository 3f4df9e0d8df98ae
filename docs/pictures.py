"""The pictures of the README, the start page and the algorithm's page: `python docs/pictures.py [FOLDER]`.

The start page's problem is the one that its first snippet makes, so that text and pictures cannot part. All numbers
come from fixed seeds: the same versions draw the same pictures, in about ten seconds.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import safespot as ss

DOCS = Path(__file__).parent
EPISODES = 50_000
# Slow enough for an eye to follow, as the page says; `options` of a run add to it.
ADVICE: dict[str, Any] = {
    "bonus_scale": 0.01,
    "estimator": "pooled",
    "policy_step": 0.01,
    "dual_step": 0.02,
}
LOOKS = (("#0072B2", "-"), ("#009E73", "--"), ("#D55E00", "-."))  # told apart without color too

Panel = tuple[str, Callable[[ss.Run], Any], float | Callable[[Any], Any], str]


def main(folder: Path) -> None:
    """Draw all of them."""
    problem = problem_of_the_page()
    optimum, rho = ss.solve(problem.cmdp), ss.slater(problem.cmdp).rho
    budget = float(problem.cmdp.limits[0])

    def learn(problem: ss.Problem = problem, **options: Any) -> ss.Run:
        learner = ss.Spot(
            **problem.interface, **{**ADVICE, "episodes": EPISODES, "rho": rho, **options}
        )
        return ss.learn(problem, learner, seed=0)

    wear: Panel = (
        "wear a shift",
        lambda run: run.constraint_values[:, 0],
        budget,
        "the true budget",
    )
    water: Panel = (
        "water a shift",
        lambda run: run.values,
        optimum.value,
        "best within the budget",
    )
    stances = {
        name: learn(stance=xi)
        for name, xi in (("pessimistic", 0.0), ("half way", 0.5), ("optimistic", 1.0))
    }
    threshold(folder / "start-threshold.svg", problem, stances["half way"], budget)
    curves(folder / "start-stances.svg", stances, [wear, water])

    (folder / "data-path.svg").write_text(data_path(), encoding="utf-8")


def learned(folder: Path) -> None:
    """The pictures of learning in epochs: what is drawn follows the learner, and moves whenever its recipe does."""
    for name, problem, episodes, words in (
        ("start-epochs.svg", problem_of_the_page(), 3_000, ("wear", "budget", "shift")),
        ("demo.svg", ss.problems.make("dosing"), 6_000, ("dose", "tolerance", "course")),
    ):
        learner = ss.SpotEpochs(**problem.interface)
        epochs(folder / name, problem, ss.learn(problem, learner, episodes), words)


def problem_of_the_page() -> ss.Problem:
    """What the first snippet of the start page makes."""
    page = (DOCS / "start.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec(re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[0], names)
    problem: ss.Problem = names["problem"]
    return problem


def epochs(path: Path, problem: ss.Problem, run: ss.Run, words: tuple[str, str, str]) -> None:
    """What a learner in epochs played, with its certificates, and what its episodes prove of the violation."""
    what, limit, episode = words

    def draw(plt: Any) -> Any:
        figure, (played, proven) = plt.subplots(1, 2, figsize=(7.6, 2.9), layout="constrained")
        values, dark, light = run.constraint_values[:, 0], LOOKS[0][0], "#E69F00"
        learner = run.learner
        assert isinstance(learner, ss.SpotEpochs)
        parts = learner.history
        ends = [part.first for part in parts[1:]] + [run.played + 1]
        for part, end in zip(parts, ends, strict=True):
            shown = (run.episodes >= part.first) & (run.episodes < end)
            tried = part.kind in ("try", "retreat")
            color = dark if tried else "0.6" if part.kind == "first" else light
            played.plot(run.episodes[shown], values[shown], ".", markersize=3.5, color=color)
        for color, name in (("0.6", "all alike"), (light, "exploring"), (dark, "trial of a plan")):
            played.plot([], [], "o", markersize=4, color=color, label=name)
        for k, found in enumerate(learner.certificates):
            at = ss.evaluate(problem.cmdp, found.policy).constraints[0]
            played.plot(
                found.episode, at, "*", markersize=11, color="#009E73", markeredgecolor="white",
                label="" if k else "certified",
            )  # fmt: skip
        level(played, float(problem.cmdp.limits[0]), f"the true {limit}")
        played.set(xscale="log", xlabel=f"{episode}s", title=f"{what} of a {episode}")
        lower, upper = (bound[:, 0] for bound in run.evidence.violation_bounds)
        proven.fill_between(run.episodes, lower, upper, color=dark, alpha=0.2, linewidth=0)
        proven.plot(run.episodes, lower, run.episodes, upper, color=dark, linewidth=0.8)
        proven.plot(run.episodes, run.violations[:, 0], color="black", linewidth=1.4, label="exact")
        proven.plot(
            [], [], color=dark, linewidth=5, alpha=0.3, label=f"proven from the {episode}s alone"
        )
        proven.axhline(0.0, color="0.6", linewidth=0.8)
        proven.set(
            xlabel=f"{episode}s", title=f"{what} beyond the {limit}, all {episode}s together"
        )
        for axes, columns in ((played, 4), (proven, 2)):
            axes.legend(
                frameon=False, ncols=columns, loc="upper center", bbox_to_anchor=(0.5, -0.2), fontsize=7.5,
                handletextpad=0.2, columnspacing=0.9,
            )  # fmt: skip
        return figure

    save(path, draw)


def threshold(path: Path, problem: ss.Problem, run: ss.Run, budget: float) -> None:
    """What the hints of single shifts look like, and how the bounds close in on their mean."""

    def draw(plt: Any) -> Any:
        streams, uniform = (
            ss.streams(0),
            np.full((problem.cmdp.H, problem.cmdp.S, problem.cmdp.A), 1 / problem.cmdp.A),
        )
        shifts = np.arange(1, 61)
        hints = [ss.play(problem, uniform, streams, int(t)).thresholds.sum() for t in shifts]
        figure, (single, many) = plt.subplots(1, 2, figsize=(7.6, 2.9), layout="constrained")
        single.plot(shifts, hints, "o", markersize=3, color="0.45")
        single.set(xlabel="shift", title="hints of single shifts, summed")
        lower, upper = (bound[:, 0] for bound in run.threshold_bounds)
        many.fill_between(run.episodes, lower, upper, color=LOOKS[0][0], alpha=0.2, linewidth=0)
        many.plot(run.episodes, lower, run.episodes, upper, color=LOOKS[0][0], linewidth=1.4)
        many.set(xlabel="shifts seen", xscale="log", title="what is known of the budget")
        for axes in (single, many):
            level(axes, budget, "the true budget")
        return figure

    save(path, draw)


def curves(
    path: Path, runs: Mapping[str, ss.Run], panels: Sequence[Panel], first: int = 10
) -> None:
    """Each panel shows one thing of every run, against episodes."""

    def draw(plt: Any) -> Any:
        figure, several = plt.subplots(1, len(panels), figsize=(7.6, 2.9), layout="constrained")
        for axes, (title, of, true, words) in zip(several, panels, strict=True):
            for (name, run), (color, line) in zip(runs.items(), LOOKS, strict=True):
                shown = run.episodes >= first
                axes.plot(
                    run.episodes[shown],
                    of(run)[shown],
                    line,
                    color=color,
                    label=name,
                    linewidth=1.5,
                )
            level(
                axes,
                true(run.episodes[shown]) if callable(true) else true,
                words,
                run.episodes[shown],
            )
            axes.set(xlabel="shifts", xscale="log", title=title)
        several[0].legend(frameon=False)
        return figure

    save(path, draw)


def level(axes: Any, value: Any, words: str, x: Any = None) -> None:
    """A thin black line for the truth, with its name."""
    if np.ndim(value):
        axes.plot(x, value, color="black", linewidth=0.9)
        value = value[0]
    else:
        axes.axhline(value, color="black", linewidth=0.9)
    axes.annotate(
        words, (0.98, value), xycoords=("axes fraction", "data"), xytext=(0, 3), textcoords="offset points",
        ha="right", fontsize=8, bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 0.5},
    )  # fmt: skip


def save(path: Path, draw: Callable[[Any], Any]) -> None:
    """Draw in the site's style; text stays text, and nothing depends on the day."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    style: Any = {
        "svg.hashsalt": path.stem, "svg.fonttype": "none", "font.size": 9, "font.family": "sans-serif",
        "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 9, "axes.titlelocation": "left",
    }  # fmt: skip
    with plt.rc_context(style):
        figure = draw(plt)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)


# The path of the data, as boxes and arrows: (column, row, title, second line, code)
BOXES = {
    "play": (
        0.5,
        0,
        "play π_t for H steps",
        "the environment, or a simulation",
        "model.simulation.play",
    ),
    "episode": (0.5, 1, "episode t", "states, actions, noisy signals", "arrays.Episode"),
    "counts": (0, 2, "counts and sums", "n, Σr, Σg, successors", "spot.visits.add_visit"),
    "window": (
        1,
        2,
        "growing window",
        "threshold samples, the newest share γ",
        "spot.window.add_to_window",
    ),
    "model": (0, 3, "optimistic model", "r̂ + φ, ĝ + φ, p̂", "spot.optimism.refresh_pair"),
    "bounds": (1, 3, "threshold α_ξ", "between α̂ − ζ and α̂ + ζ", "spot.optimism.threshold_bounds"),
    "evaluation": (
        0,
        4,
        "truncated evaluation",
        "Q_r + Σ λ Q_g, at most the steps left",
        "spot.planning.evaluate_states",
    ),
    "dual": (1, 5, "dual step", "λ rises where V_g falls short of α_ξ", "spot.updates.dual_step"),
    "policy": (0, 5, "mirror ascent", "π_{t+1} ∝ π_t exp(η Q)", "spot.updates.mirror_ascent"),
}
ARROWS = [
    ("play", "episode"), ("episode", "counts"), ("episode", "window"), ("counts", "model"), ("window", "bounds"),
    ("model", "evaluation"), ("bounds", "dual"), ("evaluation", "policy"), ("evaluation", "dual"),
]  # fmt: skip
WIDE, HIGH, GAP_X, GAP_Y, LEFT = 206, 62, 28, 34, 34


def data_path() -> str:
    """One episode, from what is seen to the next policy, as an SVG."""
    width, height = 2 * WIDE + GAP_X + 2 * LEFT, 6 * HIGH + 5 * GAP_Y + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" role="img" aria-label="The path of the data through one episode">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#444"/></marker></defs>',
    ]
    for start, end in ARROWS:
        parts.append(f'<path d="{_route(start, end)}" {_stroke()}/>')
    # What the next episode gets back: the policy by the left edge, the multipliers from below right to the evaluation.
    x, y = _corner("policy")
    top = _corner("play")[1] + HIGH / 2
    parts.append(f'<path d="M{x} {y + HIGH / 2}H12V{top}H{_corner("play")[0]}" {_stroke("5 4")}/>')
    x, y = _corner("dual")
    across = _corner("evaluation")[1] + HIGH / 3
    parts.append(
        f'<path d="M{x + WIDE * 0.72} {y}V{across}H{_corner("evaluation")[0] + WIDE}" {_stroke("5 4")}/>'
    )
    parts.append(_text(x + WIDE / 2 - 6, across - 6, "λ, in the next episode", 10, "#444", "end"))
    parts.append(_text(18, top - 8, "π, in the next episode", 10, "#444", "start"))
    for name, (_, _, title, about, code) in BOXES.items():
        x, y = _corner(name)
        fill = (
            "#fff3e0"
            if name in ("window", "bounds")
            else "#e3f2fd"
            if name not in ("play", "episode")
            else "#f5f5f5"
        )
        parts.append(
            f'<rect x="{x}" y="{y}" width="{WIDE}" height="{HIGH}" rx="6" fill="{fill}" stroke="#888"/>'
        )
        middle = x + WIDE / 2
        parts.append(_text(middle, y + 19, title, 13, "#111", weight="bold"))
        parts.append(_text(middle, y + 36, about, 11, "#222"))
        parts.append(_text(middle, y + 53, code, 10.5, "#1a4f8b", family="monospace"))
    return "\n".join([*parts, "</svg>", ""])


def _corner(name: str) -> tuple[float, float]:
    column, row, *_ = BOXES[name]
    return LEFT + column * (WIDE + GAP_X), 8 + row * (HIGH + GAP_Y)


def _route(start: str, end: str) -> str:
    """From the foot of a box to the head of another."""
    (x0, y0), (x1, y1) = _corner(start), _corner(end)
    share = 0.75 if (start, end) == ("evaluation", "dual") else 0.5
    target = x1 + WIDE * (0.25 if (start, end) == ("evaluation", "dual") else 0.5)
    return f"M{x0 + WIDE * share} {y0 + HIGH}L{target} {y1}"


def _stroke(dash: str = "") -> str:
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'fill="none" stroke="#444" stroke-width="1.3" marker-end="url(#tip)"{dashed}'


def _text(
    x: float,
    y: float,
    text: str,
    size: float,
    fill: str,
    anchor: str = "middle",
    weight: str = "normal",
    family: str = "sans-serif",
) -> str:
    """A line of text; in prose, what stands behind an underscore is set low."""
    if family == "sans-serif":
        low = rf'<tspan dy="3" font-size="{size * 0.75:g}">\1</tspan><tspan dy="-3">&#8203;</tspan>'
        text = re.sub(r"_\{?([\w+]+)\}?", low, text)
    style = f'font-family="{family}" font-weight="{weight}" font-size="{size:g}"'
    return f'<text x="{x:g}" y="{y:g}" fill="{fill}" text-anchor="{anchor}" {style}>{text}</text>'


if __name__ == "__main__":
    chosen = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS / "figures"
    main(chosen)
    learned(chosen)
