"""A sweep is data: a TOML file that says which runs there are.

    spec  = read_spec("tradeoff.toml")      everything that is wrong with it, at once
    runs  = spec.runs()                     problems x learners x seeds, every combination of the grids

A `RunSpec` is one of them: all that its results depend on and nothing else. Its id is a readable name and a hash of
that content, so the same content is the same run, on any machine and in any order.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    model_validator,
)

from ..errors import InvalidOption, SafespotError, nearest
from ..files import as_path, check_memory, failure, read_bytes
from .checking import FILE, complaints

TYPES = ("int", "constrained-int", "float", "str", "one", "several")
# What a value was to be, in words for whoever wrote the file, by the type of pydantic's complaint.
EXPECTED = {
    "int_type": "a whole number", "float_type": "a number", "finite_number": "a finite number",
    "string_type": "a text in quotes", "bool_type": "true or false", "list_type": "a list", "dict_type": "a table",
    "model_type": "a table", "model_attributes_type": "a table", "literal_error": "{expected}",
    "greater_than_equal": "at least {ge}", "less_than_equal": "at most {le}",
    "too_short": "a list of at least {min_length}",
}  # fmt: skip
RUN_BYTES = 4000  # of memory that a run takes before it begins, about
LARGEST = 2**63 - 1  # whole number that a store can be asked for
FORMAT = 1  # of the content that a run's id is made from


def _plain(value: Any) -> Any:
    """An option: numbers, strings, booleans, and lists and tables of them."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f'must be a finite number, got {value}; an infinite rho is written "inf"')
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if not isinstance(value, (bool, int, float, str)):
        raise ValueError(f"must be a number, a string, true or false, or a list; got {value!r}")
    return value


Option = Annotated[Any, AfterValidator(_plain)]
Count = Annotated[int, Field(ge=1, le=LARGEST)]
Seed = Annotated[int, Field(ge=0, le=LARGEST)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]  # part of file names
# A ready learner, or "package.module:Class".
LearnerName = Annotated[str, Field(pattern=r"^([a-z0-9-]+|[A-Za-z_][\w.]*:[A-Za-z_]\w*)$")]
Label = Annotated[str, Field(min_length=1, max_length=80, pattern=r"^\S(.*\S)?$")]
Options = dict[str, Option]
Choices = Annotated[list[Option], Field(min_length=1)]


class _Record(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class LawSpec(_Record):
    """A noise law by its name, with its parameter."""

    law: Literal["bernoulli", "beta", "gaussian", "deterministic"]
    concentration: float | None = None  # of "beta"
    sd: float | None = None  # of "gaussian"

    @model_validator(mode="after")
    def _fits(self) -> LawSpec:
        takes = {"beta": "concentration", "gaussian": "sd"}.get(self.law)
        for name in ("concentration", "sd"):
            if getattr(self, name) is not None and name != takes:
                raise ValueError(f"the law {self.law!r} takes no {name}")
        return self


class DriftSpec(_Record):
    """Where the thresholds move to, and when: the arguments of `Drift`."""

    thresholds: list[float] | list[list[float]]
    first: Count
    last: Count | None = None


class SignalsSpec(_Record):
    """How the problem is observed; what is left out stays as the problem has it."""

    rewards: LawSpec | None = None
    constraints: LawSpec | None = None
    thresholds: LawSpec | None = None
    drift: DriftSpec | None = None


class ProblemGrid(BaseModel):
    """Options to vary: each a list. `signals` varies the whole table."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True, allow_inf_nan=False)
    __pydantic_extra__: dict[str, Choices] = Field(init=False)

    signals: Annotated[list[SignalsSpec], Field(min_length=1)] | None = None


class ProblemSpec(_Record):
    """A ready problem (or "file": the one in the file `path`), its options, how it is observed, what is varied."""

    name: Name
    options: Options = {}
    signals: SignalsSpec = SignalsSpec()
    grid: ProblemGrid = ProblemGrid()

    def settings(self) -> Iterator[tuple[str, Options, SignalsSpec]]:
        """Name, options and signals of every problem of the grid."""
        for options in _combinations(self.options, self.grid.model_extra or {}):
            if self.name == FILE:
                options = _pinned(options)
            for signals in self.grid.signals or [self.signals]:
                yield self.name, options, signals


# A table, or an array of tables: `[problem]` or several `[[problem]]`.
Problems = Annotated[
    Annotated[ProblemSpec, Tag("one")]
    | Annotated[list[ProblemSpec], Field(min_length=1), Tag("several")],
    Discriminator(lambda given: "several" if isinstance(given, list) else "one"),
]


class LearnerSpec(_Record):
    """A learner, its options, and what is varied.

    Some options may be taken from the truth: ``rho = "slater"``, ``slack = "slater"``, ``thresholds = "known"``, and a
    ``policy`` or ``baseline`` that is "slater" or "optimal".
    """

    name: LearnerName
    label: Label | None = None  # what reports call it
    options: Options = {}
    anytime: bool = False  # not told how many episodes there will be
    grid: dict[str, Choices] = {}


@dataclass(frozen=True)
class RunSpec:
    """One run: all that its results depend on.

    Examples:
        >>> from safespot.experiments import as_spec
        >>> study = as_spec({
        ...     "episodes": 200, "seeds": 3, "problem": {"name": "machine"}, "learners": [{"name": "uniform"}]
        ... })
        >>> [(run.problem, run.learner, run.seed) for run in study.runs()]
        [('machine', 'uniform', 0), ('machine', 'uniform', 1), ('machine', 'uniform', 2)]
        >>> study.runs()[0].id
        'machine-uniform-200-seed0-...'

    """

    problem: str
    problem_options: Options
    signals: SignalsSpec
    learner: str
    learner_options: Options
    anytime: bool
    episodes: int
    seed: int
    record: str | int
    track: str
    label: str | None = None  # what reports call its learner; no result depends on it

    @cached_property
    def content(self) -> dict[str, Any]:
        """What the id is made from, ready for JSON; what was left out is left out."""
        names = (field.name for field in fields(self) if field.name != "label")
        parts = {name: getattr(self, name) for name in names}
        return {"format": FORMAT, **parts, "signals": self.signals.model_dump(exclude_none=True)}

    @cached_property
    def id(self) -> str:
        """A readable name and a hash of the content; a file is told by its checksum, wherever it is."""
        content = self.content
        if self.problem == FILE:
            options = {k: v for k, v in self.problem_options.items() if k != "path"}
            content = {**content, "problem_options": options}
        text = _text(_canonical(content))
        digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        learner = self.learner.rpartition(":")[2]  # a name with a colon is no file name everywhere
        return f"{self.problem}-{learner}-{self.episodes}-seed{self.seed}-{digest}"

    @cached_property
    def setting(self) -> str:
        """The problem's part of the content: runs with the same one share its optimum."""
        return setting_of(self.content)


def setting_of(content: Mapping[str, Any]) -> str:
    """The problem's part of a run's content, as text."""
    return _text({name: content[name] for name in ("problem", "problem_options", "signals")})


class Spec(_Record):
    """A whole sweep.

    Examples:
        >>> from safespot.experiments import as_spec
        >>> study = as_spec({
        ...     "episodes": 200, "seeds": 3, "problem": {"name": "machine"},
        ...     "learners": [{"name": "spot", "options": {"slack": 1}, "grid": {"stance": [0.0, 0.5, 1.0]}}],
        ... })
        >>> len(study.runs())  # three stances, three seeds
        9

    """

    episodes: Count | Annotated[list[Count], Field(min_length=1)]
    seeds: Count | Annotated[list[Seed], Field(min_length=1)]  # how many, or which
    problem: Problems
    learners: Annotated[list[LearnerSpec], Field(min_length=1)]
    record: Literal["log", "all"] | Count = "log"
    track: Literal["every", "grid"] = "every"

    def runs(self) -> list[RunSpec]:
        """Every run once, seeds innermost."""
        seeds = range(self.seeds) if isinstance(self.seeds, int) else self.seeds
        lengths = [self.episodes] if isinstance(self.episodes, int) else self.episodes
        problems = self.problem if isinstance(self.problem, list) else [self.problem]
        check_memory("the sweep", RUN_BYTES * self._size(len(seeds), len(lengths), problems))
        settings = [each for problem in problems for each in problem.settings()]
        found: dict[str, RunSpec] = {}
        for (name, given, signals), episodes, learner in itertools.product(
            settings, lengths, self.learners
        ):
            for options, seed in itertools.product(
                _combinations(learner.options, learner.grid), seeds
            ):
                run = RunSpec(
                    problem=name,
                    problem_options=given,
                    signals=signals,
                    learner=learner.name,
                    learner_options=options,
                    anytime=learner.anytime,
                    episodes=episodes,
                    seed=seed,
                    record=self.record,
                    track=self.track,
                    label=learner.label,
                )
                found.setdefault(run.id, run)
        return list(found.values())

    def _size(self, seeds: int, lengths: int, problems: list[ProblemSpec]) -> int:
        """How many runs there are, before any is made: a few bytes can ask for a billion."""
        settings = sum(
            math.prod(map(len, (problem.grid.model_extra or {}).values()))
            * len(problem.grid.signals or [problem.signals])
            for problem in problems
        )
        learners = sum(math.prod(map(len, learner.grid.values())) for learner in self.learners)
        return seeds * lengths * settings * learners


def read_spec(path: str | Path) -> Spec:
    """The sweep that a TOML file describes; an `InvalidOption` names everything that is wrong.

    Examples:
        >>> from pathlib import Path
        >>> from safespot.experiments import read_spec
        >>> text = '''
        ... episodes = 200
        ... seeds = 3
        ... problem.name = "machine"
        ... learners = [{ name = "uniform" }]
        ... '''
        >>> written = Path("study.toml").write_text(text)
        >>> len(read_spec("study.toml").runs())
        3

    """
    try:
        content = tomllib.loads(read_bytes(path).decode("utf-8"))
    except (ValueError, RecursionError) as problem:  # a number of 5,000 digits is a ValueError, too
        if isinstance(problem, SafespotError):
            raise
        raise InvalidOption(f"{path} is not TOML: {problem}.") from None
    return as_spec(content, str(path))


def as_spec(content: Mapping[str, Any], source: str | None = None) -> Spec:
    """The same from a dict with the keys of the file; `source` is the file that it was read from.

    Examples:
        >>> from safespot.experiments import as_spec
        >>> as_spec({"episodes": 200, "seeds": 3, "problem": {"name": "machine"}, "learner": []})
        Traceback (most recent call last):
            ...
        safespot.errors.InvalidOption: invalid configuration of a sweep:
          learners: is missing
          learner: unknown key; did you mean `learners`?

    """
    spec, wrong = None, {}
    try:
        spec = Spec.model_validate(content)
    except ValidationError as problem:
        wrong = _misshapen(problem)
    more = complaints(content, thorough=bool(wrong))
    if more and not wrong:  # problems are only made where there is something to tell
        more = complaints(content, thorough=True)
    wrong |= {key: what for key, what in more.items() if not _mentioned(key, wrong)}
    if spec is None or wrong:
        what = f"{source} is not a sweep file" if source else "invalid configuration of a sweep"
        lines = "\n".join(f"  {key}: {said}" for key, said in wrong.items())
        raise InvalidOption(f"{what}:\n{lines}")
    return spec


def _mentioned(key: str, wrong: Mapping[str, str]) -> bool:
    """Whether this key, or something in it, is complained of already."""
    return any(other == key or other.startswith(f"{key}.") for other in wrong)


def _misshapen(problem: ValidationError) -> dict[str, str]:
    """One complaint per key; where several readings of it failed, the shortest says enough."""
    lines: dict[str, list[str]] = {}
    expected: dict[str, list[str]] = {}
    given: dict[str, str] = {}
    for error in problem.errors(include_url=False):
        # "int", "list[…]" and the like name the readings of a union: they are not keys of the file.
        where = [str(part) for part in error["loc"] if not _names_a_type(part)]
        key = ".".join(where) or "the file"
        if meant := EXPECTED.get(error["type"]):
            expected.setdefault(key, []).append(meant.format(**error.get("ctx", {})))
            given[key] = f"{error['input']!r:.60}"
            continue
        message = error["msg"].removeprefix("Value error, ")
        if error["type"] == "missing":
            message = "is missing"
        elif error["type"] == "extra_forbidden":
            message = f"unknown key{nearest(where[-1], _keys(where[:-1]))}"
        lines.setdefault(key, []).append(message)
    for key, words in expected.items():
        must = f"must be {' or '.join(dict.fromkeys(words))}, got {given[key]}"
        lines.setdefault(key, []).append(must)
    return {key: " or ".join(dict.fromkeys(said)) for key, said in lines.items()}


def _keys(where: Sequence[str]) -> list[str]:
    """The keys that the table at a place may have."""
    kinds: dict[str, type[BaseModel]] = {
        "": Spec, "problem": ProblemSpec, "learners": LearnerSpec, "problem.signals": SignalsSpec,
        "problem.signals.drift": DriftSpec,
    }  # fmt: skip
    place = ".".join(part for part in where if not part.isdigit())
    return list(kinds.get(place, LawSpec).model_fields)


def _names_a_type(part: str | int) -> bool:
    return isinstance(part, str) and ("[" in part or part in TYPES)


def _pinned(options: Options) -> Options:
    """The options of a file with its checksum."""
    path = options.get("path")
    if not isinstance(path, str):
        raise InvalidOption(
            f"the problem {FILE!r} needs the option path, the name of a file; got {path!r}."
        )
    return {"checksum": file_checksum(path), **options}


def file_checksum(path: str) -> str:
    """BLAKE2b over a file."""
    try:
        with as_path(path).open("rb") as file:
            return hashlib.file_digest(file, "blake2b").hexdigest()[:32]
    except OSError as problem:
        raise failure(f"cannot read {path}", problem) from None


def _combinations(options: Options, grid: Mapping[str, list[Any]]) -> Iterator[Options]:
    for values in itertools.product(*grid.values()):
        yield {**options, **dict(zip(grid, values, strict=True))}


def _text(content: Any) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _canonical(value: Any) -> Any:
    """The same number has one spelling: 1.0 is 1."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_canonical(part) for part in value]
    if isinstance(value, dict):
        return {key: _canonical(part) for key, part in value.items()}
    return value
