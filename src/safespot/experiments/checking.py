"""What is wrong with the content of a sweep beside its shape: names that do not exist, values that make no sense.

A complaint has the place in the file as its key. Learners are checked without a problem, so that a wrong problem hides
nothing of them.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping
from typing import Any

from .. import learners, problems
from ..data.model_files import read_cmdp
from ..errors import InvalidOption, SafespotError, unknown

Complaints = dict[str, str]  # where -> what
FILE = "file"  # the problem that is in a file of one's own, `path`
# Words for what is taken from the truth, and what stands in for it while there is no problem to ask.
WORDS: dict[str, dict[str, Any]] = {
    "rho": {"slater": 1.0, "inf": math.inf},
    "slack": {"slater": 1.0},
    "policy": {"slater": [[1.0]], "optimal": [[1.0]]},
    "baseline": {"slater": [[1.0]], "optimal": [[1.0]]},
    "thresholds": {"known": [0.0]},
}


def complaints(content: Mapping[str, Any], thorough: bool) -> Complaints:
    """All of them; `thorough` makes the problems, which may take its time, to see their values too."""
    found: Complaints = {}
    problem = content.get("problem")
    for where, table in _tables("problem", problem):
        found |= _problem(where, table, thorough)
    for where, table in _tables("learners", content.get("learners")):
        found |= _learner(where, table)
    return found


def check_options(learner: str, given: Mapping[str, Any], *, anytime: bool = False) -> None:
    """Raise unless a learner of that name takes these options, and in these values."""
    found = _option_names(learner, given) or _option_values(learner, given, anytime)
    if found:
        raise InvalidOption(f"learner {learner!r}: {next(iter(found.values()))}")


def check_guard(given: Any) -> None:
    """Raise unless these are arguments of a `Guard`."""
    takes = [name for name in inspect.signature(learners.Guard).parameters if name != "learner"]
    if not isinstance(given, Mapping):
        raise InvalidOption(f"guard must be a table of: {', '.join(takes)}; got {given!r}.")
    for name in given:
        if name not in takes:
            raise InvalidOption(unknown("option of the guard", name, takes))
    for name in ("baseline", "budget"):
        if name not in given:
            raise InvalidOption(f"the guard needs {name}.")


def _tables(key: str, given: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each table under a key, with its place; what is none has been complained of already."""
    many = [(f"{key}.{k}", each) for k, each in enumerate(given)] if isinstance(given, list) else []
    for where, table in many or [(key, given)]:
        if isinstance(table, Mapping) and isinstance(table.get("name"), str):
            yield where, table


def _part(table: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = table.get(name)
    return dict(found) if isinstance(found, Mapping) else {}


def _grid(table: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {k: v for k, v in _part(table, "grid").items() if isinstance(v, list) and v}


def _members(options: dict[str, Any], grid: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """Some of the combinations of a grid, in which every value occurs: few, however large the grid is."""
    first = options | {name: values[0] for name, values in grid.items()}
    yield first
    for name, values in grid.items():
        for value in values[1:]:
            yield first | {name: value}


def _place(table: Mapping[str, Any], option: str) -> str:
    return f".{'grid' if option in _grid(table) else 'options'}.{option}" if option else ""


def _problem(where: str, table: Mapping[str, Any], thorough: bool) -> Complaints:
    name, options = table["name"], _part(table, "options")
    grid = {k: v for k, v in _grid(table).items() if k != "signals"}
    if name != FILE:
        if name not in problems.names():
            return {f"{where}.name": unknown("problem", name, problems.names())}
        takes = problems.options(name)
        found = {
            where + _place(table, k): unknown("option", k, takes)
            for k in options | grid
            if k not in takes
        }
        if found:
            return found
    elif not isinstance(options.get("path"), str):
        return {where: f"the problem {FILE!r} needs the option path, the name of a file."}
    for each in _members(options, grid) if thorough else ():
        try:
            if name == FILE:
                given = {k: v for k, v in each.items() if k not in ("path", "checksum")}
                read_cmdp(each["path"], **given)
            else:
                problems.make(name, **each)
        except SafespotError as problem:
            return {where: str(problem)}
        except TypeError as problem:
            return {where: f"an option has the wrong type: {problem}."}
    return {}


def _learner(where: str, table: Mapping[str, Any]) -> Complaints:
    name, options, grid = table["name"], _part(table, "options"), _grid(table)
    try:
        learners.find(name)
    except SafespotError as problem:
        return {f"{where}.name": str(problem)}
    found = _option_names(name, options | grid)
    anytime, known = table.get("anytime") is True, [k for k in grid if k not in found]
    options = {k: v for k, v in options.items() if k not in found}
    for each in _members(options, {k: grid[k] for k in known}):
        for option, what in _option_values(name, each, anytime).items():
            found.setdefault(option, what)
    return {where + _place(table, option): what for option, what in found.items()}


def _option_names(learner: str, given: Mapping[str, Any]) -> Complaints:
    """How many episodes there are is the run's to say."""
    takes = [option for option in learners.options(learner) if option != "episodes"]
    found = {k: unknown("option", k, takes) for k in given if k not in takes and k != "guard"}
    if "episodes" in found:
        found["episodes"] = (
            "the number of episodes is the run's own; give it there, not to the learner."
        )
    return found


def _option_values(learner: str, given: Mapping[str, Any], anytime: bool) -> Complaints:
    """Return what is wrong with the values of options."""
    found: Complaints = {}
    values = {k: v for k, v in given.items() if k != "guard"}
    if "guard" in given:
        try:
            check_guard(given["guard"])
        except InvalidOption as problem:
            found["guard"] = str(problem)
    for option in [k for k, v in values.items() if isinstance(v, str) and k in WORDS]:
        words = WORDS[option]
        if values[option] in words:
            values[option] = words[values[option]]
        else:
            found[option] = unknown("word", values[option], words)
            values[option] = next(iter(words.values()))
    try:
        learners.find(learner).options_type(episodes=None if anytime else 1, **values)
    except InvalidOption as exc:
        wrong = exc.wrong or {"": str(exc)}
    except (TypeError, OverflowError, ValueError) as exc:  # of a learner from outside
        wrong = {"": f"{exc}."}
    else:
        wrong = {}
    return found | {option: what for option, what in wrong.items() if option not in found}
