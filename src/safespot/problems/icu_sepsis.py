"""Treating sepsis in intensive care: 716 states of patients, 25 doses, from the records of MIMIC-III.

The ICU-Sepsis benchmark of Choudhary, Gupta and Thomas (2024). Its data come with the package `icu-sepsis`
(``pip install 'safespot[icu]'``), whose files are read without importing it.

States 0 to 712 are kinds of patients, 713 is death, 714 survival; 715 was the benchmark's state behind both and
is never entered here: death and survival are absorbing instead, so that a limit can tell them apart. An action
is a pair of levels 0 to 4, fluid = a // 5 and vasopressor = a % 5. The mask admits what clinicians did often
enough to be estimated (2,238 pairs, and one action in each of the last three states). The reward of a step is
the probability that the patient survives in it, so the value is the probability of survival within the horizon.

Limits are lower bounds for the sum over the episode of

- ``"fluid"``: g = 1 - fluid/4, and 1 once the episode is over;
- ``"vasopressor"``: g = 1 - vasopressor/4, and 1 once it is over; alone it is nearly free;
- ``"sofa"``: g = 1 - SOFA/24, the mean organ failure score of the state; 1 after survival and 0 after death,
  for which the benchmark has the score 0: death must not look safe.

The benchmark has neither limits nor threshold signals. Both are ours: the signal's mean is the limit divided by
the horizon. A limit holds on average over the start distribution, not for each patient.

The authors warn against drawing conclusions for medical practice, and so do we.

Where only names are given, limits are set from the model: let one policy gain as much room as possible over the
unconstrained optimum in every named limit at once; the limits ask for three quarters of that room. With one
limit that is three quarters of the way from the optimum's value to the largest one. It is always feasible.
"""

from __future__ import annotations

import importlib.util
import zipfile
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from scipy import sparse

from ..arrays import Bool, Float, as_count, frozen
from ..errors import InvalidFile, InvalidOption, MissingPackage
from ..model.cmdp import CMDP
from ..model.oracle import slater, solve
from ..model.problem import Problem

S, A = 716, 25
DEATH, SURVIVAL, BEHIND = 713, 714, 715
LIMITS = ("fluid", "vasopressor", "sofa")
WORDS = {"fluid": "fluid spared", "vasopressor": "vasopressor spared", "sofa": "organ function"}
SHARE = 0.75  # of the room that a policy can gain


class Data(NamedTuple):
    """The benchmark's tables, with absorbing ends and without inadmissible pairs."""

    transitions: Any  # CSR [S*A, S]; rows of inadmissible pairs are empty
    start: Float  # [S]
    actions: Bool  # [S, A]
    sofa: Float  # [S]
    expert: Float  # [S, A]: as shipped, all zero in the last three states


def make(horizon: int = 10, limits: Mapping[str, float] | Iterable[str] = ("fluid",)) -> Problem:
    """Make the benchmark with limits.

    Args:
        horizon: H. The benchmark stops after 500 steps; a third of its episodes last beyond 10.
        limits: episodic thresholds by name, or names alone, whose thresholds are then set from the model.

    """
    H = as_count("horizon", horizon, least=1, error=InvalidOption)
    names = _names(limits)
    data = read()
    goods = _goods(data)
    rewards = data.transitions[:, [SURVIVAL]].toarray().reshape(S, A)
    rewards[DEATH:] = 0.0
    cmdp = CMDP(
        data.transitions,
        rewards,
        [goods[name] for name in names],
        np.zeros(len(names)),
        data.start,
        actions=data.actions,
        horizon=H,
        state_names=[
            *(f"patients {s}" for s in range(DEATH)),
            "death",
            "survival",
            "never entered",
        ],
        action_names=[f"fluid {a // 5}, vasopressor {a % 5}" for a in range(A)],
        limit_names=[WORDS[name] for name in names],
        units={
            "reward": "probability of survival",
            "constraints": ["steps an episode"] * len(names),
        },
    )
    if isinstance(limits, Mapping):
        return Problem(cmdp.with_thresholds([limits[name] for name in names]))
    free = solve(cmdp).constraints
    room = slater(cmdp.with_thresholds(free)).margins
    return Problem(cmdp.with_thresholds(free + SHARE * room))


def expert() -> Float:
    """Return the clinicians' policy as the benchmark estimates it, ``[S,A]``, on admissible actions only.

    As shipped it puts mass on 7,014 inadmissible pairs, 16 % of a state's on average. The benchmark lets these move
    like the average of the admissible ones, so their mass is spread evenly over the state's admissible actions
    here: the value is then the benchmark's own.
    """
    data = read()
    even = data.actions / data.actions.sum(axis=1, keepdims=True)
    masked = np.where(data.actions, data.expert, 0.0)
    policy: Float = masked + (1.0 - masked.sum(axis=1, keepdims=True)) * even
    return frozen(policy)


def _names(limits: Mapping[str, float] | Iterable[str]) -> tuple[str, ...]:
    names = tuple(limits) if isinstance(limits, Iterable) and not isinstance(limits, str) else ()
    if not names or any(name not in LIMITS for name in names) or len(set(names)) < len(names):
        raise InvalidOption(
            f"limits must name some of {', '.join(LIMITS)}, each once: a dict of thresholds such as "
            f"{{'fluid': 8.9}}, or a tuple of names, got {limits!r}."
        )
    return names


def _goods(data: Data) -> dict[str, Float]:
    """Return ``g`` of every limit, ``[S,A]``."""
    actions = np.arange(A)
    goods = {
        "fluid": np.tile(1.0 - actions // 5 / 4, (S, 1)),
        "vasopressor": np.tile(1.0 - actions % 5 / 4, (S, 1)),
        "sofa": np.repeat(1.0 - data.sofa[:, None] / 24, A, axis=1),
    }
    for name, g in goods.items():
        g[DEATH:] = 1.0
        if name == "sofa":
            g[DEATH] = 0.0
    return goods


@lru_cache(maxsize=1)
def read() -> Data:
    """Return the benchmark's data, from a cache after the first call: to unpack them takes half a second."""
    home = importlib.util.find_spec("icu_sepsis")
    if home is None or not home.submodule_search_locations:
        raise MissingPackage(
            "the problem 'icu-sepsis' needs the data of the package icu-sepsis: "
            "pip install 'safespot[icu]'."
        )
    assets = Path(home.submodule_search_locations[0], "envs", "assets")
    try:
        actions = _admissible(assets / "admissible_actions.txt")
        with zipfile.ZipFile(assets / "dynamics.npz") as archive:
            start, sofa, shipped = (
                _array(archive, name, shape)
                for name, shape in (("d_0", (S,)), ("sofa_scores", (S,)), ("expert_policy", (S, A)))
            )
            transitions = _transitions(archive, actions)
    except (OSError, EOFError, KeyError, ValueError, IndexError, zipfile.BadZipFile) as exc:
        raise InvalidFile(
            f"{assets} does not hold the data of icu-sepsis 2.0.1 ({exc}): "
            "pip install --force-reinstall 'safespot[icu]'."
        ) from None
    return Data(transitions, frozen(start / start.sum()), actions, frozen(sofa), frozen(shipped))


def _admissible(path: Path) -> Bool:
    """Return the mask ``[S,A]``; after the file's first line comes one for each state."""
    mask = np.zeros((S, A), np.bool_)
    with path.open() as lines:
        next(lines)
        for s, line in enumerate(lines):
            mask[s, [int(a) for a in line.split()]] = True
    mask[DEATH:] = np.arange(A) == 0  # nothing is decided any more
    return frozen(mask)


def _array(archive: zipfile.ZipFile, name: str, shape: tuple[int, ...]) -> Float:
    with archive.open(f"{name}.npy") as file:
        _check_header(file, name, shape)
        return np.frombuffer(file.read(), np.float64).reshape(shape)


def _transitions(archive: zipfile.ZipFile, actions: Bool) -> Any:
    """Return the rows of admissible pairs, read state by state: the whole dense array would take 102 MB."""
    blocks = []
    with archive.open("tx_mat.npy") as file:
        _check_header(file, "tx_mat", (S, A, S))
        for s in range(DEATH):
            rows = np.frombuffer(file.read(A * S * 8), np.float64).reshape(A, S)
            blocks.append(sparse.csr_array(np.where(actions[s, :, None], rows, 0.0)))
    blocks.extend(sparse.csr_array(([1.0], ([0], [s])), shape=(A, S)) for s in range(DEATH, S))
    return sparse.vstack(blocks, format="csr")


def _check_header(file: IO[bytes], name: str, shape: tuple[int, ...]) -> None:
    """Leave `file` at the first number of a NumPy array of that shape."""
    version = np.lib.format.read_magic(file)
    if version != (1, 0):
        raise ValueError(f"{name} is written in format {version}")
    header = np.lib.format.read_array_header_1_0(file)
    if header != (shape, False, np.dtype(np.float64)):
        raise ValueError(f"{name} has shape, order and type {header}")
