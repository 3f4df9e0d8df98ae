"""The account of a guard as arrays, and back: nothing that a file holds is believed unchecked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidFile
from .budget import BASELINE, PROVEN, SAID, SAME, TRUSTED, Account

CARRIED = ("spent", "plays", "unsafe")  # whose turn it is follows from them
SEQUENCES = ("means", "trial")


def account_arrays(account: Account) -> dict[str, NDArray]:
    """What an account carries, and its sequences but for their buffers, as "account.field"."""
    made = {f"account.{name}": getattr(account, name) for name in CARRIED}
    for part in SEQUENCES:
        record = getattr(account, part)._asdict()
        made |= {f"account.{part}.{k}": v for k, v in record.items() if k != "terms"}
    return made


def own_arrays(account: Account, arrays: dict[str, NDArray]) -> dict[str, NDArray]:
    """Those of `arrays` that are an account's, copied, if they can be those of one like `account`."""
    found = {}
    for name, like in account_arrays(account).items():
        found[name] = arrays[name].copy()
        if (found[name].shape, found[name].dtype) != (like.shape, like.dtype):
            raise InvalidFile(f"the array {name!r} is not one of this guard")
    return found


def plausible_account(found: dict[str, NDArray], episodes: int, *, credit: bool) -> bool:
    """Whether arrays can be those of an account after so many episodes."""
    plays, counted = found["account.plays"], found["account.means.counted"][0]
    baseline = plays[[BASELINE, SAME]].sum()
    return bool(
        all(np.isfinite(array).all() for array in found.values())
        and (plays >= 0).all()
        and plays.sum() <= episodes
        and counted == (plays.sum() if credit else plays.sum() - baseline)
        and (found["account.trial.counted"] == baseline).all()
        and (found["account.means.product"] > 0.0).all()
        and (found["account.trial.product"] > 0.0).all()
        and (np.abs(found["account.trial.lower"] - 0.5) <= 0.5).all()
        and found["account.unsafe"][0] in (TRUSTED, PROVEN, SAID)
    )


def with_arrays(account: Account, found: dict[str, NDArray]) -> Account:
    """An account as `found` has it."""
    read: dict[str, Any] = {name: found[f"account.{name}"] for name in CARRIED}
    for part in SEQUENCES:
        start = f"account.{part}."
        fields = {k.removeprefix(start): v for k, v in found.items() if k.startswith(start)}
        read[part] = getattr(account, part)._replace(**fields)
    return account._replace(**read)
