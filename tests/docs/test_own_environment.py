"""The example of one's own environment, as it is shipped."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from gymnasium.utils.env_checker import check_env

import safespot as ss

FILE = Path(__file__).parents[2] / "examples" / "own_environment.py"


@pytest.fixture(scope="module")
def example() -> Any:
    return SimpleNamespace(**runpy.run_path(str(FILE)))


@pytest.mark.filterwarnings("ignore")  # about the shape of a Box with one entry
def test_the_room_is_an_environment(example: Any) -> None:
    check_env(example.Room(), skip_render_check=True)


def test_the_example_learns_and_tells(example: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run = example.main(episodes=600)
    said = capsys.readouterr().out
    assert said.startswith("odd: nothing\n")
    assert "allowance: between" in said
    heat = run.constraint_values[:, 0]
    assert run.values[-60:].mean() > run.values[:60].mean() + 0.3  # more comfort
    assert heat[-60:].mean() < heat[:60].mean() - 0.5  # with less heat
    low, high = (bound[0] for bound in run.learner.threshold_bounds)
    assert low < 4.8 < high
    assert isinstance(run.learner, ss.Spot)
