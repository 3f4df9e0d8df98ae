"""`safespot run` and `safespot sweep`: learn a problem, or do the runs of a file."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .application import AsJson, Engine, EngineName, Options, Out, Scheduler, Workers, app
from .given import as_guard, count, parse_options, parse_stance, read_target
from .output import print_json

if TYPE_CHECKING:
    from ..experiments import Swept

STOPPED = 130


@app.command()
def run(
    problem: Annotated[
        str, typer.Argument(metavar="PROBLEM|FILE", help="A ready problem, or a file as for solve.")
    ],
    stance: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STANCE",
            help="pessimistic, optimistic, or a number from 0 to 1; may be repeated.  "
            "[default: pessimistic]",
        ),
    ] = None,
    learner: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Which learner (docs/learners.md); may be repeated.  [default: spot]",
        ),
    ] = None,
    episodes: Annotated[
        str, typer.Option(metavar="N", help="Number of episodes, such as 200k or 1e6.")
    ] = "200k",
    seeds: Annotated[int, typer.Option(min=1, help="Number of independent repetitions.")] = 8,
    bonus_scale: Annotated[
        float, typer.Option(help="Scale of the exploration bonus; 1 is the paper's.")
    ] = 0.01,
    threshold_scale: Annotated[
        float, typer.Option(help="Scale of the threshold radius; 1 is the paper's.")
    ] = 1.0,
    estimator: Annotated[
        str, typer.Option(help="Threshold estimator: representative or pooled.")
    ] = "pooled",
    learner_option: Annotated[
        list[str] | None,
        typer.Option(
            "--learner-option", "-l", metavar="NAME=VALUE", help="Another option of the learner."
        ),
    ] = None,
    budget: Annotated[
        list[float] | None,
        typer.Option(
            metavar="B",
            help="Guard the learner: limits may be violated by so much over all episodes, in the constraint's units; "
            "once for each constraint, or once for all (docs/guard.md).",
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="slater|FILE",
            help="What a guard plays where the budget leaves no room: the safest policy of the true model, or a policy "
            "[H,S,A] or [S,A] in a .json or .npy file.  [default: slater]",
        ),
    ] = None,
    option: Options = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="STORE", help="Folder for the results; safespot-PROBLEM by default."
        ),
    ] = None,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Learn a problem whose limits are unknown: the main job.

    Each stance learns with every seed, and so does the same learner with known limits: the difference is the price
    of not knowing them. What a learner must know beforehand (rho, a safe policy) is taken from the true model. Ends
    with a table and a report (STORE/report.html). Ctrl-C keeps what is done, and the same command resumes.

    \b
    Examples:
      safespot run dosing
      safespot run dosing --stance 0 --stance 0.5 --stance 1 --episodes 50k --seeds 4
      safespot run dosing -l policy_step=0.001 -l dual_step=0.005
      safespot run random -o states=3 --episodes 1e6 --bonus-scale 1
      safespot run inventory --learner spot --learner dope --episodes 20k
      safespot run dosing --learner spot-epochs --budget 100 --episodes 10k
      safespot run log.parquet -o 'senses="<="' -o stationary=true
    """
    from .. import learners as learner_names
    from .. import problems
    from ..experiments.settings import needs

    chosen: dict[str, Any] = {"name": problem, "options": parse_options(option)}
    if problem not in problems.names():
        read_target(problem, parse_options(option))  # what is wrong is told before anything is made
        chosen = {
            "name": "file",
            "options": {"path": str(Path(problem).resolve()), **parse_options(option)},
        }
    scales = {
        "bonus_scale": bonus_scale,
        "threshold_scale": threshold_scale,
        "estimator": estimator,
    }
    more = parse_options(learner_option) | as_guard(budget, baseline)
    stances = [parse_stance(each) for each in stance or ["pessimistic"]]
    learners: list[dict[str, Any]] = []
    for name in learner or ["spot"]:
        taken = learner_names.options(name)  # those whose bounds are not the paper's have no scales
        options = needs(name, {k: v for k, v in scales.items() if k in taken} | more)
        learners += [
            {"name": name, "options": options, "grid": {"stance": stances}},
            {"name": name, "options": {**options, "thresholds": "known"}},
        ]
    spec = {
        "episodes": count(episodes),
        "seeds": seeds,
        "problem": chosen,
        "learners": learners,
    }
    run_sweep(
        spec,
        Path(f"safespot-{Path(problem).stem}") if out is None else out,
        as_json,
        workers=workers,
    )


@app.command()
def sweep(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE.toml", help="TOML file of the sweep; see docs/experiments.md."
        ),
    ],
    out: Out,
    engine: Engine = EngineName.local,
    workers: Workers = None,
    scheduler: Scheduler = None,
    as_json: AsJson = False,
) -> None:
    """Do the runs of a TOML file that are not in the store yet.

    Ends with a table and a report (STORE/report.html).

    \b
    Examples:
      safespot sweep examples/sweeps/tradeoff.toml --out tradeoff
      safespot sweep big.toml --out /shared/big --engine dask --scheduler tcp://head:8786
    """
    run_sweep(file, out, as_json, engine=engine.value, workers=workers, scheduler=scheduler)


def run_sweep(spec: dict[str, Any] | Path, out: Path, as_json: bool, **where: Any) -> None:
    """Do what is not done yet, write the report, and say what came out."""
    from ..experiments import sweep as do_sweep

    with keeping_what_is_done(out):
        swept = do_sweep(spec, out, **where)
    show(swept, write_page(swept), as_json)
    if swept.failed:
        raise typer.Exit(1)


@contextlib.contextmanager
def keeping_what_is_done(out: Path) -> Iterator[None]:
    """Ctrl-C keeps what is done, and says so."""
    try:
        yield
    except KeyboardInterrupt:
        print(
            f"\nsafespot: stopped. What is finished is in {out}; the same command resumes.",
            file=sys.stderr,
        )
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is ending already
        raise typer.Exit(STOPPED) from None


def write_page(swept: Swept) -> Path | None:
    """The report of a store; None where nothing is finished."""
    from .. import report as reports

    return reports.write_report(swept.store) if swept.store.finished() else None


def show(swept: Swept, page: Path | None, as_json: bool) -> None:
    """What a sweep found, for people or as JSON."""
    from ..report import findings, terminal

    mine = set(swept.finished)
    studies = findings.read(swept.store) if mine else []
    # What this sweep is about comes last, where people look first.
    studies.sort(key=lambda study: any(mine & set(line.group.runs) for line in study.lines))
    if as_json:
        print_json(
            {
                "store": str(swept.store.path),
                "report": None if page is None else str(page),
                "finished": len(swept.finished),
                "failed": swept.failed,
                "studies": [terminal.as_dict(study) for study in studies],
            }
        )
        return
    for study in studies:
        terminal.print_study(study)
    for name, why in swept.failed.items():
        print(f"safespot: {name} failed: {why}", file=sys.stderr)
    print(f"results: {swept.store.path}")
    if page is not None:
        print(f"report:  {page}")
