"""The command `safespot`.

Every subcommand answers in text for people or, with ``--json``, in one JSON document on standard output; progress
goes to standard error. It ends with 0 for success, 2 for a wrong call or wrong input, 1 for a failure, 130 after
Ctrl-C.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import __version__
from .errors import (
    InvalidFile,
    InvalidModel,
    InvalidOption,
    SafespotError,
    UnknownName,
)

if TYPE_CHECKING:
    from .cmdp import CMDP
    from .experiments import Swept

WRONG_INPUT = (InvalidFile, InvalidModel, InvalidOption, UnknownName)
STOPPED = 130

app = typer.Typer(
    name="safespot",
    help="Safe reinforcement learning for finite problems whose safety limits are themselves unknown.",
    epilog="Begin with: safespot problems",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help is there at once
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

AsJson = Annotated[bool, typer.Option("--json", help="Answer with one JSON document.")]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option", "-o", metavar="NAME=VALUE", help="An option of the problem; may be repeated."
    ),
]
Out = Annotated[Path, typer.Option("--out", metavar="STORE", help="The folder of the results.")]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Processes at once; all processors by default.")
]


class EngineName(StrEnum):
    """Where runs are done."""

    local = "local"
    dask = "dask"


Engine = Annotated[EngineName, typer.Option(help="This machine's processes, or Dask.")]
Scheduler = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Of a Dask scheduler, tcp://…")
]


class Kind(StrEnum):
    """Kinds of figures for print."""

    pdf = "pdf"
    png = "png"
    svg = "svg"


def main() -> None:
    """The command: `app`, with errors on one screen and no traceback unless asked for."""
    try:
        app()
    except SafespotError as problem:
        if debugging():
            raise
        print(f"safespot: {problem}", file=sys.stderr)
        sys.exit(2 if isinstance(problem, WRONG_INPUT) else 1)
    except BrokenPipeError:  # whoever reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def debugging() -> bool:
    """Whether errors come with a traceback."""
    return bool(os.environ.get("SAFESPOT_DEBUG"))


def _version(wanted: bool) -> None:
    if wanted:
        print(f"safespot {__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option(help="Show tracebacks of errors.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """What comes before the subcommand."""
    if debug:
        os.environ["SAFESPOT_DEBUG"] = "1"


@app.command("problems")
def problems_command(
    name: Annotated[str | None, typer.Argument(help="One of them, to see it described.")] = None,
    option: Options = None,
    as_json: AsJson = False,
) -> None:
    """List the ready problems, or describe one.

    \b
    Examples:
      safespot problems
      safespot problems dosing
      safespot problems random -o states=5 -o seed=3
    """
    if name is None:
        from . import problems

        rows = [_listed(each) for each in problems.names()]
        if as_json:
            _print_json(rows)
        else:
            from .report.terminal import print_table

            print_table(
                ["problem", "S", "A", "H", "m", "what it is"],
                [[r["name"], *(r.get(k, "-") for k in "SAHm"), r["meaning"]] for r in rows],
            )
        return
    import numpy as np

    from . import problems
    from .oracle import slater, solve

    cmdp = problems.make(name, **_parsed(option)).cmdp
    solution, safest = solve(cmdp), slater(cmdp)
    # Limits that every policy keeps: nothing of what is bounded is asked for.
    nothing = cmdp.units.constraints.total_outside(np.zeros(cmdp.m), cmdp.H)
    free = solve(cmdp.with_thresholds(nothing))
    about: dict[str, Any] = {
        "name": name,
        **{k: getattr(cmdp, k) for k in "SAHm"},
        "optimum": solution.value,
        "unconstrained": free.value,
        "limits": _limits(cmdp, solution.constraints, solution.multipliers),
        "slater_margin": safest.margin,
        "rho": safest.rho,
        "meaning": problems.describe(name),
    }
    if as_json:
        _print_json(about)
        return
    print(problems.story(name))
    print()
    print(f"S = {cmdp.S} states, A = {cmdp.A} actions, H = {cmdp.H} steps, m = {cmdp.m} limits")
    print(f"optimum {solution.value:.6g} within the limits, {free.value:.6g} without")
    _print_limits(about["limits"])
    print(
        f"the safest policy keeps every limit with {safest.margin:.4g} to spare; rho = {safest.rho:.4g}"
    )


@app.command()
def solve(
    target: Annotated[
        str, typer.Argument(metavar="PROBLEM|FILE", help="A ready problem, or a file.")
    ],
    option: Options = None,
    policy: Annotated[
        Path | None, typer.Option(metavar="FILE.npy", help="Write the optimal policy [H,S,A].")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Solve a problem exactly: optimum, multipliers, gap.

    FILE is an .npz, .safetensors or .toml with the arguments of CMDP: transitions, rewards, constraints,
    thresholds, and what else they need; or a .csv or .parquet log of episodes, whose empirical model is solved.

    \b
    Examples:
      safespot solve machine
      safespot solve my-model.npz --policy best.npy
      safespot solve log.parquet -o 'senses="<="' -o stationary=true
    """
    import numpy as np

    from .oracle import solve as solve_cmdp

    cmdp = _cmdp(target, _parsed(option))
    solution = solve_cmdp(cmdp)
    if policy is not None:
        try:
            np.save(policy, solution.policy)
        except OSError as problem:
            raise InvalidFile(f"cannot write {policy}: {problem.strerror}.") from None
    about: dict[str, Any] = {
        "optimum": solution.value,
        "gap": solution.gap,
        "limits": _limits(cmdp, solution.constraints, solution.multipliers),
    }
    if as_json:
        _print_json(about)
        return
    print(f"optimum {solution.value:.10g}, certified within {solution.gap:.1g}")
    _print_limits(about["limits"])


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
        str, typer.Option(metavar="N", help="How many; 200k and 1e6 are numbers.")
    ] = "200k",
    seeds: Annotated[int, typer.Option(min=1, help="How many independent repetitions.")] = 8,
    bonus_scale: Annotated[float, typer.Option(help="Of the bonus; 1 is the paper's.")] = 0.01,
    threshold_scale: Annotated[
        float, typer.Option(help="Of the thresholds' radius; 1 is the paper's.")
    ] = 1.0,
    estimator: Annotated[str, typer.Option(help="representative or pooled.")] = "pooled",
    learner_option: Annotated[
        list[str] | None,
        typer.Option(
            "--learner-option", "-l", metavar="NAME=VALUE", help="Another option of the learner."
        ),
    ] = None,
    option: Options = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="STORE", help="The folder of the results; by default safespot-PROBLEM."
        ),
    ] = None,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Learn a problem whose limits are unknown: the main job.

    Each stance learns with every seed; so does the same learner that is told the limits: what lies between them is
    what not knowing the limits costs. What a learner must know beforehand (rho, a safe policy) is the truth's. Ends
    with a table and a report (STORE/report.html). Ctrl-C keeps what is done, and the same command goes on.

    \b
    Examples:
      safespot run dosing
      safespot run dosing --stance 0 --stance 0.5 --stance 1 --episodes 50k --seeds 4
      safespot run dosing -l policy_step=0.001 -l dual_step=0.005
      safespot run random -o states=3 --episodes 1e6 --bonus-scale 1
      safespot run inventory --learner spot --learner dope --episodes 20k
      safespot run log.parquet -o 'senses="<="' -o stationary=true
    """
    from . import problems
    from .experiments.work import needs

    chosen: dict[str, Any] = {"name": problem, "options": _parsed(option)}
    if problem not in problems.names():
        _cmdp(problem, _parsed(option))  # what is wrong is told before anything is made
        chosen = {
            "name": "file",
            "options": {"path": str(Path(problem).resolve()), **_parsed(option)},
        }
    given = {
        "bonus_scale": bonus_scale,
        "threshold_scale": threshold_scale,
        "estimator": estimator,
        **_parsed(learner_option),
    }
    stances = [_stance(each) for each in stance or ["pessimistic"]]
    learners: list[dict[str, Any]] = []
    for name in learner or ["spot"]:
        options = needs(name, given)
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
    _sweep(
        spec,
        Path(f"safespot-{Path(problem).stem}") if out is None else out,
        as_json,
        workers=workers,
        page=True,
    )


@app.command()
def sweep(
    file: Annotated[
        Path, typer.Argument(metavar="FILE.toml", help="What to run; see docs/experiments.md.")
    ],
    out: Out,
    engine: Engine = EngineName.local,
    workers: Workers = None,
    scheduler: Scheduler = None,
    as_json: AsJson = False,
) -> None:
    """Do the runs of a TOML file that are not in the store yet.

    \b
    Examples:
      safespot sweep examples/sweeps/tradeoff.toml --out tradeoff
      safespot sweep big.toml --out /shared/big --engine dask --scheduler tcp://head:8786
    """
    _sweep(file, out, as_json, engine=engine.value, workers=workers, scheduler=scheduler)


@app.command()
def report(
    store: Annotated[
        Path, typer.Argument(metavar="STORE", help="A folder that run or sweep has filled.")
    ],
    figures: Annotated[
        Kind | None, typer.Option(help="Also figures for print, in STORE/figures.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make the report of a store.

    STORE/report.html is one file that needs no network.

    \b
    Examples:
      safespot report safespot-dosing
      safespot report safespot-dosing --figures pdf
    """
    from . import report as reports
    from .experiments import Store

    opened = Store(store)
    written = [reports.write_report(opened)]
    if figures is not None:
        written += reports.write_figures(opened, figures.value)
    if as_json:
        _print_json({"written": [str(path) for path in written]})
    else:
        print("\n".join(str(path) for path in written))


@app.command()
def verify(
    quick: Annotated[bool, typer.Option("--quick", help="A small version, in minutes.")] = False,
    extended: Annotated[
        bool, typer.Option("--extended", help="Also what takes longer than an hour.")
    ] = False,
    claim: Annotated[
        list[str] | None, typer.Option(metavar="CLAIM", help="One claim; may be repeated.")
    ] = None,
    out: Out = Path("safespot-verify"),
    engine: Engine = EngineName.local,
    workers: Workers = None,
    scheduler: Scheduler = None,
    as_json: AsJson = False,
) -> None:
    """Measure the paper's claims and judge each.

    Ends with a page (STORE/report.html), the same as Markdown (STORE/verification.md) and STORE/figures. What a claim
    turns out to be is a result: the command succeeds whatever it is. Ctrl-C keeps what is done, and the same command
    goes on.

    \b
    Examples:
      safespot verify --quick
      safespot verify --out results/verify
      safespot verify --claim coverage --claim tradeoff --out results/two
    """
    if quick and extended:
        raise InvalidOption("--quick or --extended, not both.")
    from .verification import verify as measure
    from .verification.verifying import as_dict

    size = "quick" if quick else "extended" if extended else "full"
    with _going_on(out):
        made = measure(
            out, size, claims=claim, engine=engine.value, workers=workers, scheduler=scheduler
        )
    if as_json:
        _print_json(as_dict(made))
    else:
        from .report.terminal import print_table

        print_table(
            ["claim", "statement", "outcome"],
            [[c.title, v.statement, v.outcome] for c, j in made.judged for v in j.verdicts],
        )
        for name, why in made.failed.items():
            print(f"safespot: {name} failed: {why}", file=sys.stderr)
        print(f"\nresults: {made.store.path}\nreport:  {made.report}")
    if made.failed:
        raise typer.Exit(1)


@app.command()
def bench(
    only: Annotated[
        list[str] | None, typer.Option(metavar="SECTION", help="One section; may be repeated.")
    ] = None,
    full: Annotated[bool, typer.Option(help="Also what takes many minutes.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure the speed beside other ways to do the same.

    \b
    Examples:
      safespot bench --only oracle
      safespot bench --full --json > speed.json
    """
    benchmarks = _benchmarks()
    unknown = [name for name in only or [] if name not in benchmarks.SECTIONS]
    if unknown:
        raise UnknownName(
            f"there is no section {unknown[0]!r}; there are {', '.join(benchmarks.SECTIONS)}."
        )
    rows = [
        row
        for section in only or benchmarks.SECTIONS
        for row in benchmarks.measure(section, full=full)
    ]
    if as_json:
        _print_json(
            {
                "machine": benchmarks.machine(),
                "rows": [row.as_dict() for row in rows],
            }
        )
    else:
        for row in rows:
            print(benchmarks.shown(row))


# What a command is given


def count(text: str) -> int:
    """A whole number as people write it: 200k, 1e6, 2.5M, 200_000."""
    match = re.fullmatch(r"([0-9][0-9_,]*\.?[0-9]*(?:e[0-9]+)?)([kKmM]?)", text.strip())
    if match:
        value = float(match[1].replace(",", "").replace("_", ""))
        value *= {"": 1, "k": 1e3, "m": 1e6}[match[2].lower()]
        if value.is_integer() and value >= 1:
            return int(value)
    raise InvalidOption(f"{text!r} is no number of episodes; write 200k, 1e6 or 200000.")


def _stance(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def _parsed(options: Sequence[str] | None) -> dict[str, Any]:
    """NAME=VALUE pairs; a value is read as TOML, and is a string where it is none."""
    parsed: dict[str, Any] = {}
    for text in options or []:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise InvalidOption(f"an option is written NAME=VALUE, got {text!r}.")
        try:
            parsed[name.strip()] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            parsed[name.strip()] = value
    return parsed


def _cmdp(target: str, options: dict[str, Any]) -> CMDP:
    from . import problems
    from .logs import WAYS
    from .reading import ENDINGS, read_cmdp, read_model

    if target in problems.names():
        return problems.make(target, **options).cmdp
    if Path(target).suffix in WAYS:
        log, model = read_model(target, **options)
        print(log, model, sep="\n", file=sys.stderr)
        return model.cmdp
    if Path(target).suffix in ENDINGS or Path(target).exists():
        return read_cmdp(target, **options)
    raise UnknownName(
        f"{target!r} is neither a ready problem ({', '.join(problems.names())}) nor a file."
    )


# What a command does


def _sweep(
    spec: dict[str, Any] | Path, out: Path, as_json: bool, *, page: bool = False, **where: Any
) -> None:
    from .experiments import sweep as do_sweep

    with _going_on(out):
        swept = do_sweep(spec, out, **where)
    written = _page(swept) if page else None
    _tell(swept, written, as_json)
    if swept.failed:
        raise typer.Exit(1)


@contextlib.contextmanager
def _going_on(out: Path) -> Iterator[None]:
    """Ctrl-C keeps what is done, and says so."""
    try:
        yield
    except KeyboardInterrupt:
        print(
            f"\nsafespot: stopped. What is done is in {out}; the same command goes on.",
            file=sys.stderr,
        )
        raise typer.Exit(STOPPED) from None


def _page(swept: Swept) -> Path | None:
    from . import report as reports

    return reports.write_report(swept.store) if swept.store.finished() else None


def _tell(swept: Swept, page: Path | None, as_json: bool) -> None:
    from .report import findings, terminal

    studies = findings.read(swept.store) if swept.finished else []
    if as_json:
        _print_json(
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


# What a command says


def _listed(name: str) -> dict[str, Any]:
    from . import problems

    listed: dict[str, Any] = {"name": name, "meaning": problems.describe(name)}
    try:
        cmdp = problems.make(name).cmdp
    except SafespotError as problem:  # an extra is not installed
        return {**listed, "meaning": f"{listed['meaning']} ({problem})"}
    return {**listed, **{k: getattr(cmdp, k) for k in "SAHm"}}


def _limits(cmdp: CMDP, values: Any, multipliers: Any) -> list[dict[str, Any]]:
    return [
        {"sense": sense, "limit": float(limit), "value": float(value), "multiplier": float(price)}
        for sense, limit, value, price in zip(
            cmdp.senses, cmdp.limits, values, multipliers, strict=True
        )
    ]


def _print_limits(limits: Sequence[dict[str, Any]]) -> None:
    for i, limit in enumerate(limits):
        print(
            f"limit {i}: {limit['value']:.6g} {limit['sense']} {limit['limit']:.6g}, "
            f"multiplier {limit['multiplier']:.4g}"
        )


def _print_json(answer: Any) -> None:
    print(json.dumps(answer, indent=2, allow_nan=False, default=float))


def _benchmarks() -> Any:
    """The benchmarks: a part of the wheel, and a folder beside the sources in a checkout."""
    import importlib

    try:
        return importlib.import_module("safespot.benchmarks.sections")
    except ModuleNotFoundError:
        checkout = Path(__file__).parents[2]
        if not (checkout / "benchmarks" / "record.py").exists():
            raise SafespotError("this installation has no benchmarks; use a checkout.") from None
        sys.path.insert(0, str(checkout))
        return importlib.import_module("benchmarks.sections")


if __name__ == "__main__":
    main()
