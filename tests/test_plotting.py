"""What plots hold: the states that a policy meets, and panels of curves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from safespot import plotting
from safespot.names import make_names

pytest.importorskip("altair")


def drawn(visits: Any) -> list[tuple[int, str, str, float]]:
    """The rows of a policy's chart: step, state, action and probability."""
    H, S = np.shape(visits)
    policy = np.tile([0.25, 0.75], (H, S, 1))
    names = make_names((S, 2, 1), [f"room {s}" for s in range(S)], ["stay", "go"], None, None)
    chart = plotting.policy_chart(policy, names, np.array(visits)).to_dict()
    return [
        (row["step"], row["state"], row["action"], row["probability"])
        for row in chart["data"]["values"]
    ]


def test_a_policy_is_drawn_where_it_is_met() -> None:
    assert drawn([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]) == [
        (0, "room 0", "stay", 0.25),
        (0, "room 0", "go", 0.75),
        (1, "room 2", "stay", 0.25),
        (1, "room 2", "go", 0.75),
    ]


def test_of_many_states_those_are_drawn_that_are_met_most_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plotting, "STATES", 2)
    rows = drawn([[0.1, 0.5, 0.2, 0.2], [0.1, 0.0, 0.2, 0.7]])
    assert {state for _, state, *_ in rows} == {"room 1", "room 3"}


def curve(*episodes: int, panel: str = "reward") -> list[dict[str, Any]]:
    return [{"episode": t, "line": "a", "panel": panel, "y": 1.0} for t in episodes]


def test_one_panel_has_its_title_and_several_have_one_each() -> None:
    alone = plotting.curve_chart(curve(1, 2), "y").to_dict()
    assert alone["title"] == "reward"
    several = plotting.curve_chart(curve(1, 2) + curve(1, panel="strain"), "y").to_dict()
    assert several["facet"]["field"] == "panel"
    assert "title" not in several


@pytest.mark.parametrize(("first", "kind"), [(1, "log"), (0, None)])
def test_episodes_are_on_a_logarithmic_axis_unless_one_is_0(first: int, kind: str | None) -> None:
    chart = plotting.curve_chart(curve(first, 10), "y").to_dict()
    for layer in chart["layer"]:
        assert layer["encoding"]["x"]["scale"].get("type") == kind
