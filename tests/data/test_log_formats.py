"""Logs as people export them: other names, texts, costs, limits that are known, one threshold for an episode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import safespot as ss

WARD: dict[str, Any] = {
    "patient": [7, 7, 3, 3],
    "day": [0, 1, 0, 1],
    "where": ["ward", "icu", "ward", "ward"],
    "given": ["none", "high", "low", "none"],
    "well being": [0.5, 1.0, 0.0, 0.25],
    "mg": [1.0, 0.0, 0.0, 0.5],
    "then": ["icu", "home", "ward", "home"],
}
COLUMNS = {
    "patient": "episode", "day": "step", "where": "state", "given": "action", "well being": "reward",
    "mg": "cost_dose", "then": "next_state",
}  # fmt: skip


def read(table: Any = WARD, **options: Any) -> ss.Log:
    return ss.read_log(table, **{"columns": COLUMNS, "limits": ss.Limit(threshold=0.75), **options})


@pytest.mark.parametrize("ending", [None, "csv", "parquet"])
def test_names_texts_costs_and_known_limits(tmp_path: Path, ending: str | None) -> None:
    source: Any = WARD
    if ending is not None:
        source = tmp_path / f"ward.{ending}"
        with duckdb.connect() as database:
            rows = database.from_df(pd.DataFrame(WARD))
            rows.write_csv(str(source)) if ending == "csv" else rows.write_parquet(str(source))
    log = read(source)
    assert log.rejected == ()
    assert (log.state_names, log.action_names) == (("home", "icu", "ward"), ("high", "low", "none"))
    assert log.constraint_names == ("dose",)
    assert log.interface["senses"] == ("<=",)
    assert log.episodes[0].states.tolist() == [2, 1, 0]
    assert log.episodes[0].actions.tolist() == [2, 0]
    assert log.episodes[1].constraints.ravel().tolist() == [0.0, 0.5]
    assert np.isnan(log.episodes[0].thresholds).all()
    assert log.thresholds is not None
    assert log.thresholds.tolist() == [0.75]
    assert ss.logs.empirical_model(log).cmdp.limits.tolist() == [0.75]


def test_names_may_be_given_in_their_order() -> None:
    log = read(states=["ward", "icu", "home"], start="ward", actions=["none", "low", "high"])
    assert log.episodes[0].states.tolist() == [0, 1, 2]
    assert log.interface["start"] == 0
    log = read(states=["ward", "icu"])
    assert log.reasons == {"then is not one of the 2 states": 2}
    assert str(log.rejected[0]) == "episode 7, step 1: then 'home' is not one of the 2 states"
    ended = read({k: v[:3] for k, v in WARD.items()}, endings={"ward": ss.gym.Ending(0, 0)})
    assert ended.episodes[1].states.tolist() == [2, 3, 3]
    for wrong in ({"start": "moon"}, {"endings": {"moon": ss.gym.Ending(0, 0)}}):
        with pytest.raises(ss.errors.InvalidOption, match="unknown state 'moon'"):
            read(**wrong)
    for names in ("ward", ["a", "a"], ["a", 1]):
        with pytest.raises(ss.errors.InvalidOption, match="list of different names"):
            read(states=names)


def test_one_threshold_for_an_episode_counts_as_it_is() -> None:
    table = {**WARD, "threshold_total_dose": [1.5, None, 0.5, 0.5]}
    log = ss.read_log(table, columns=COLUMNS)
    assert [e.thresholds.sum() for e in log.episodes] == [1.5, 0.5]
    assert log.thresholds is None
    differ = {**WARD, "threshold_total_dose": [1.5, 1.0, 0.5, 0.5]}
    assert ss.read_log(differ, columns=COLUMNS).reasons == {
        "threshold_total_dose is another one than before in its episode": 1
    }
    short = {k: v[:3] for k, v in table.items()}
    ended = ss.read_log(short, columns=COLUMNS, endings=ss.gym.Ending(0, 0))
    assert ended.episodes[1].thresholds.ravel().tolist() == [0.25, 0.25]  # spread over all steps
    nothing = {**WARD, "threshold_total_dose": [0.0, 0.0, 0.5, 0.5]}
    assert ss.read_log(nothing, columns=COLUMNS).rejected == ()
    large = {**WARD, "threshold_total_dose": [2.5, None, 0.5, 0.5]}
    (rejection,) = ss.read_log(large, columns=COLUMNS).rejected
    assert str(rejection).endswith("threshold_total_dose 2.5 lies outside its declared range")


def test_constraints_and_costs_have_their_own_senses() -> None:
    table = {**WARD, "constraint_sleep": [1.0] * 4}
    log = read(table, limits=[ss.Limit(threshold=0.75), ss.Limit(threshold=0.5)])
    assert log.constraint_names == ("dose", "sleep")
    assert log.interface["senses"] == ("<=", ">=")
    with pytest.raises(ss.errors.InvalidOption, match="'mg' is a cost"):
        read(senses=">=")
    with pytest.raises(ss.errors.InvalidFile, match="both constraint_dose and cost_dose"):
        read({**WARD, "constraint_dose": [1.0] * 4})
    numbered = {**WARD, "mg": [0.0] * 4, "cost_10": [0.1] * 4, "cost_2": [0.2] * 4}
    assert read(numbered, limits=ss.Limit(threshold=1)).constraint_names == ("2", "10", "dose")


def test_senses_that_are_given_count() -> None:
    table = {**WARD, "constraint_sleep": [1.0] * 4}
    log = read(table, limits=ss.Limit(sense="<=", threshold=0.75))
    assert log.interface["senses"] == ("<=", "<=")
    plain = {**{k: v for k, v in WARD.items() if k != "mg"}, "constraint_0": [1.0] * 4}
    names = {k: v for k, v in COLUMNS.items() if k != "mg"}
    assert ss.read_log(plain, columns=names, thresholds=[0.5]).interface["senses"] == (">=",)


def test_numbered_constraints_come_first_in_their_order() -> None:
    """Wherever their columns stand; those with other names stay in the order of the log."""
    more = {"constraint_x": [1.0] * 4, "constraint_5": [1.0] * 4, "constraint_a": [1.0] * 4}
    plain = {k: v for k, v in WARD.items() if k != "mg"}
    table = {**more, **plain, "constraint_0": [0.0] * 4}
    names = {k: v for k, v in COLUMNS.items() if k != "mg"}
    log = ss.read_log(table, columns=names, limits=ss.Limit(threshold=1))
    assert log.constraint_names == ("0", "5", "x", "a")
    assert log.interface["limit_names"] == ("0", "5", "x", "a")
    assert log.episodes[0].constraints[0].tolist() == [0.0, 1.0, 1.0, 1.0]


def test_propensities_are_read() -> None:
    log = read({**WARD, "propensity": [0.5, 0.25, 0.125, None]})
    np.testing.assert_array_equal(log.propensities, [[0.5, 0.25], [0.125, np.nan]])
    assert read().propensities is None


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"episode": "patient"}, "unknown column 'episode'.*log's own name first"),
        ({"pateint": "episode"}, "did you mean `patient`"),
        ({"patient": "day"}, "which the log has already"),
        ({"patient": "episode", "day": "episode"}, "both to be read as 'episode'"),
        (["episode"], "columns must be a dict"),
    ],
)
def test_wrong_renaming(columns: Any, words: str) -> None:
    with pytest.raises(ss.errors.InvalidOption, match=words):
        ss.read_log(WARD, columns=columns)


def test_states_are_called_as_is_said_or_as_the_log_does() -> None:
    assert read().interface["state_names"] == ("home", "icu", "ward")
    assert read(state_names=["a", "b", "c"]).interface["state_names"] == ("a", "b", "c")


def test_actions_are_called_as_is_said_or_as_the_log_does() -> None:
    assert read().interface["action_names"] == ("high", "low", "none")
    assert read(action_names=["x", "y", "z"]).interface["action_names"] == ("x", "y", "z")


def test_absorbing_states_have_names_and_count() -> None:
    ended, short = ss.gym.Ending(0, 0), {k: v[:3] for k, v in WARD.items()}
    one = read(short, endings=ended).interface
    assert (one["states"], one["state_names"]) == (4, ("home", "icu", "ward", "ended"))
    named = ["ward", "icu", "home"]
    two = read(short, states=named, endings={"ward": ended, "home": ss.gym.Ending(1, 0)}).interface
    assert (two["states"], two["state_names"]) == (5, (*named, "ended, way 1", "ended, way 2"))


def test_a_column_is_one_of_texts_where_most_of_it_is() -> None:
    half = {**WARD, "where": [0, 1, 0, 1], "then": ["a", "b", "c", "d"]}
    assert read(half, horizon=2).state_names is None
    assert read({**half, "where": [0, 1, 0, "a"]}).state_names == ("0", "1", "a", "b", "c", "d")


def test_limits_must_be_seen_or_known() -> None:
    with pytest.raises(ss.errors.InvalidFile, match=r"lacks the column threshold_dose.*its"):
        ss.read_log(WARD, columns=COLUMNS)
    with pytest.raises(ss.errors.InvalidOption, match="threshold"):
        read(limits=ss.Limit(threshold=9.0))
