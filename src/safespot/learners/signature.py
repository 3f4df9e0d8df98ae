"""The signature and the docstring of a learner, from its interface and its record of options: one mechanism for all."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from typing import get_type_hints

from ..signals.interface import NAMES, make_interface
from .options import is_required

ARGUMENT = re.compile(r"^ +(\w+): (.*?)(?=^ +\w+: |\Z)", re.MULTILINE | re.DOTALL)
INTERFACE = """
states, actions, horizon, constraints: S, A, H and m.
start: the first state; None: a distribution, which is learned (D5).
action_mask: ``[S,A]`` or ``[H,S,A]``, what is admissible; None: everything.
senses: ">=" or "<=", one for all constraints or one for each.
ranges: of rewards and constraints, in the user's units.
stationary: whether transitions, rewards and constraints are the same at every step; planners then share counts.
state_names, action_names, limit_names, units: what people call them (`Names`); nothing is computed with them.
"""


def signature_of(options: type) -> inspect.Signature:
    """Return ``(states, actions, …, *, option=default, …)``: the names of ``problem.interface``, and the options."""
    kinds = get_type_hints(options)
    given = list(inspect.signature(make_interface).parameters.values())[:-1]
    given += [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None)
        for name in NAMES
    ]
    own = [
        inspect.Parameter(
            option.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if is_required(option) else option.default,
            annotation=kinds[option.name],
        )
        for option in fields(options)
    ]
    return inspect.Signature(
        [*given, *sorted(own, key=lambda option: option.default is not option.empty)]
    )


def described(options: type) -> dict[str, str]:
    """Return the meaning of each option, from the docstrings of the records that the options derive from."""
    return {
        name: " ".join(meaning.split())
        for record in reversed(options.__mro__[:-1])
        for name, meaning in ARGUMENT.findall(inspect.getdoc(record) or "")
    }


def documented(about: str | None, options: type) -> str:
    """Return a learner's docstring with all of its arguments."""
    meanings = described(options)
    lines = [*INTERFACE.strip().splitlines()]
    lines += [f"{option.name}: {meanings.get(option.name, '')}" for option in fields(options)]
    arguments = "\n".join(f"    {line}" for line in lines)
    return f"{inspect.cleandoc(about or '')}\n\nArgs:\n{arguments}\n"
