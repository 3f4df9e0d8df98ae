"""Parsers of a command's arguments: numbers, options, problems and files, as people write them."""

from __future__ import annotations

import json
import math
import re
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InvalidFile, InvalidOption, SafespotError, UnknownName, unknown

if TYPE_CHECKING:
    from ..model.cmdp import CMDP


def count(text: str) -> int:
    """Parse a whole number as people write it: 200k, 1e6, 2.5M, 200_000."""
    match = re.fullmatch(r"([0-9][0-9_,]*\.?[0-9]*(?:e[0-9]+)?)([kKmM]?)", text.strip())
    if match:
        value = float(match[1].replace(",", "").replace("_", ""))
        value *= {"": 1, "k": 1e3, "m": 1e6}[match[2].lower()]
        if value.is_integer() and value >= 1:
            return int(value)
    raise InvalidOption(f"{text!r} is not a number of episodes; write 200k, 1e6 or 200000.")


def parse_stance(text: str) -> str | float:
    """Parse a number, or the name of a stance."""
    try:
        return float(text)
    except ValueError:
        return text


def parse_options(options: Sequence[str] | None) -> dict[str, Any]:
    """Parse NAME=VALUE pairs; a value is read as TOML, and is a string where it is not TOML."""
    parsed: dict[str, Any] = {}
    for text in options or []:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise InvalidOption(f"{text!r} is not an option; expected NAME=VALUE.")
        try:
            parsed[name.strip()] = tomllib.loads(f"value = {value}")["value"]
        except ValueError:  # not TOML, or a number of thousands of digits
            parsed[name.strip()] = value
        except RecursionError:
            raise InvalidOption(f"the value of {name.strip()!r} nests too deep.") from None
    return parsed


def as_guard(budget: Sequence[float] | None, baseline: str | None) -> dict[str, Any]:
    """Return the learner's option `guard` for a command's budget and baseline; no guard without a budget."""
    if not budget:
        if baseline is not None:
            raise InvalidOption(
                "--baseline is what a guard plays; say how much it may spend: --budget."
            )
        return {}
    if not all(map(math.isfinite, budget)):
        raise InvalidOption(f"--budget must be a finite number, got {', '.join(map(str, budget))}.")
    if baseline not in (None, "slater"):
        baseline = read_policy(str(baseline))
    spend = budget[0] if len(budget) == 1 else list(budget)
    return {"guard": {"baseline": baseline or "slater", "budget": spend}}


def read_policy(path: str) -> Any:
    """Return the numbers of a policy in a file, as lists."""
    from ..files import as_path, failure

    if Path(path).suffix == ".npy":
        from ..data.model_files import read_array

        return read_array(path).tolist()
    try:
        return json.loads(as_path(path).read_text())
    except OSError as exc:
        raise failure(f"cannot read {path}", exc) from None
    except ValueError as exc:
        raise InvalidFile(
            f"{path} holds no policy: {exc}. Expected lists [H,S,A] or [S,A] of probabilities as JSON, or an array "
            "(.npy)."
        ) from None


def all_of(**parts: Callable[[], Any]) -> dict[str, Any]:
    """Call every part and return the values by name; raise the only error, or all of them in one `InvalidOption`."""
    made, wrong = {}, []
    for name, part in parts.items():
        try:
            made[name] = part()
        except SafespotError as exc:
            wrong.append(exc)
    if len(wrong) == 1:
        raise wrong[0]
    if wrong:
        raise InvalidOption("\n  ".join(["several things are wrong:", *map(str, wrong)]))
    return made


def read_target(target: str, options: dict[str, Any]) -> CMDP:
    """Return the model of a ready problem, of a file, or of a log."""
    from .. import problems
    from ..data.model_files import ENDINGS, read_cmdp, read_model
    from ..storage.tables import FORMATS

    if target in problems.names():
        return problems.make(target, **options).cmdp
    if Path(target).suffix in FORMATS:
        log, model = read_model(target, **options)
        print(log, model, sep="\n", file=sys.stderr)
        return model.cmdp
    if Path(target).suffix in ENDINGS or Path(target).exists():
        return read_cmdp(target, **options)
    raise UnknownName(
        f"{unknown('problem', target, problems.names())} There is no file of that name either."
    )
