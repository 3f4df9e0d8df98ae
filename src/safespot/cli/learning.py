"""`safespot run` and `safespot sweep`: learn a problem, or do the runs of a file."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .application import STOPPED, AsJson, Engine, EngineName, Options, Out, Scheduler, Workers, app
from .given import all_of, as_guard, count, parse_options, parse_stance, read_target
from .output import print_json

if TYPE_CHECKING:
    from ..experiments import Swept


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
            help="Which learner (docs/learners.md); may be repeated.  "
            "[default: spot-epochs, beside spot and uniform]",
        ),
    ] = None,
    episodes: Annotated[
        str, typer.Option(metavar="N", help="Number of episodes, such as 10k or 1e6.")
    ] = "10k",
    seeds: Annotated[int, typer.Option(min=1, help="Number of independent repetitions.")] = 4,
    learner_option: Annotated[
        list[str] | None,
        typer.Option(
            "--learner-option",
            "-l",
            metavar="NAME=VALUE",
            help="An option of the learners that take it; may be repeated.",
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

    SPOT in epochs learns under each stance, and once more with the limits known: the difference is the price of not
    knowing them. The paper's SPOT, as docs/choosing.md advises, and the uniform policy stand beside it. What a learner
    must know beforehand (rho, a safe policy) is taken from the true model. Ends with a table, the policy to deploy with
    its certificate, and a report (STORE/report.html). Ctrl-C keeps what is done, and the same command resumes.

    \b
    Examples:
      safespot run dosing
      safespot run dosing --stance 0 --stance 0.5 --stance 1 --episodes 50k --seeds 4
      safespot run inventory --learner spot-epochs --learner dope --episodes 5k
      safespot run random -o states=3 --learner spot -l bonus_scale=1 --episodes 1e6
      safespot run dosing --budget 100
      safespot run log.parquet -o 'senses="<="' -o stationary=true
    """
    from .. import problems
    from ..experiments.settings import compared

    def chosen() -> dict[str, Any]:
        options = parse_options(option)
        if problem in problems.names():
            return {"name": problem, "options": options}
        read_target(problem, options)  # reports errors before anything is made
        return {"name": "file", "options": {"path": str(Path(problem).resolve()), **options}}

    def learners() -> list[dict[str, Any]]:
        stances = [parse_stance(each) for each in stance or []]
        learner_options = parse_options(learner_option) | as_guard(budget, baseline)
        return compared(learner or [], stances, learner_options)

    made = all_of(episodes=lambda: count(episodes), problem=chosen, learners=learners)
    spec = {"seeds": seeds, **made}
    run_sweep(
        spec,
        Path(f"safespot-{Path(problem).stem}") if out is None else out,
        as_json,
        trials=True,
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


def run_sweep(
    spec: dict[str, Any] | Path, out: Path, as_json: bool, *, trials: bool = False, **where: Any
) -> None:
    """Do the runs that are not done yet, and print and report the results; `trials`: try an uncertified proposal."""
    from ..experiments import sweep as do_sweep

    with keeping_what_is_done(out):
        swept = do_sweep(spec, out, **where)
        page = write_page(swept)
        show(swept, page, as_json, trials=trials)
    if swept.failed:
        raise typer.Exit(1)


@contextlib.contextmanager
def keeping_what_is_done(out: Path) -> Iterator[None]:
    """Report on Ctrl-C that finished runs are kept."""
    try:
        yield
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is ending already
        print(
            f"\nsafespot: stopped. What is finished is in {out}; the same command resumes.",
            file=sys.stderr,
        )
        raise typer.Exit(STOPPED) from None


def write_page(swept: Swept) -> Path | None:
    """Write the report of a store, and return its path; None where nothing is finished."""
    from .. import report as reports

    return reports.write_report(swept.store) if swept.store.finished() else None


def show(swept: Swept, page: Path | None, as_json: bool, *, trials: bool = False) -> None:
    """Print the results of a sweep, as tables for people or as JSON."""
    from ..report import findings, terminal
    from ..report import trials as trying

    mine = set(swept.finished)
    studies = findings.read(swept.store) if mine else []
    # What this sweep is about comes last, where people look first.
    studies.sort(key=lambda study: any(mine & set(line.group.runs) for line in study.lines))
    tried = trying.try_proposal(swept.store, studies[-1]) if trials and studies else None
    if as_json:
        print_json(
            {
                "store": str(swept.store.path),
                "report": None if page is None else str(page),
                "finished": len(swept.finished),
                "failed": swept.failed,
                "studies": [terminal.as_dict(study) for study in studies],
                "trial": None if tried is None else tried.as_dict(),
            }
        )
        return
    for study in studies:
        terminal.print_study(study)
    if tried is not None:
        terminal.say(tried.sentences())
    for name, why in swept.failed.items():
        print(f"safespot: {name} failed: {why}", file=sys.stderr)
    print(f"report:  {page}" if page is not None else f"results: {swept.store.path}")
