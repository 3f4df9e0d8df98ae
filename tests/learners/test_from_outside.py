"""A learner from outside the package: its step is a kernel in the compiled loop, and its name works everywhere."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import safespot as ss
from safespot import cli
from safespot.training import loop
from tests.support.processes import run_python

# It follows the action that paid most on average in each state and step, and moves in every episode.
SOURCE = '''
from typing import NamedTuple

import numpy as np

import safespot as ss
from safespot.learners.compiled_step import MOVED, step_for
from safespot.learners.options import Options
from safespot.spot.visits import add_visit


class GreedyRates(NamedTuple):
    learned: bool
    share: float  # of the time that it tries anything


class GreedyState(NamedTuple):
    pi: np.ndarray
    lam: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    finished: np.ndarray


class Greedy(ss.learners.TabularLearner):
    """Takes what paid most so far."""

    name = "greedy"
    options_type = Options
    carried = ("pi", "lam", "finished")

    def __init__(self, *interface, **options):
        super().__init__(*interface, **options)
        f = self.interface
        self.rates = GreedyRates(False, SHARE)
        self.state = GreedyState(
            f.mask / f.mask.sum(axis=2, keepdims=True), np.zeros(f.m), np.zeros(f.m),
            np.full(f.m, float(f.H)), np.zeros(1, np.int64),
        )

    def settle(self):
        pass

    def _check_fields(self, fields, n):
        pass

    def _derive(self):
        pass


@step_for(GreedyRates)
def greedy_step(rates, state, statistics, window, episode):
    A = state.pi.shape[2]
    statistics.starts[episode.states[0]] += 1
    for h in range(episode.pairs.shape[0]):
        s, pair = episode.states[h], episode.pairs[h]
        add_visit(statistics, h, s, pair, episode.states[h + 1], episode.rewards[h], episode.constraints[h])
        best, most = 0, -1.0
        for a in range(A):
            n = statistics.n[h, s * A + a]
            mean = statistics.sums[0, h, s * A + a] / n if n > 0 else 1.0
            if mean > most:
                best, most = a, mean
        for a in range(A):
            state.pi[h, s, a] = rates.share / A
        state.pi[h, s, best] += 1.0 - rates.share
    state.finished[0] += 1
    return MOVED
'''


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module that the package knows nothing of."""
    path = tmp_path / "outside_learners.py"
    path.write_text(SOURCE.replace("SHARE)", "0.1)"))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    yield path
    sys.modules.pop("outside_learners", None)


NAME = "outside_learners:Greedy"


@pytest.mark.usefixtures("package")
def test_it_learns_in_the_compiled_loop_what_it_learns_by_hand(tmp_path: Path) -> None:
    problem = ss.problems.make("random", states=4, actions=3, horizon=3, seed=2)
    ours = ss.learners.make(NAME, problem.interface, episodes=300)
    run = ss.learn(problem, ours, seed=7)
    theirs, streams = ss.learners.make(NAME, problem.interface, episodes=300), ss.streams(7)
    for t in range(1, 301):
        theirs.observe(ss.play(problem, theirs.policy, streams, t))
    np.testing.assert_array_equal(ours.policy, theirs.policy)
    assert run.values[-50:].mean() > run.values[0]
    if hasattr(loop.play_chunk, "signatures"):
        assert any("GreedyRates" in str(each) for each in loop.play_chunk.signatures)
    ours.save(tmp_path / "greedy")
    np.testing.assert_array_equal(ss.learners.load(tmp_path / "greedy").policy, ours.policy)


@pytest.mark.usefixtures("package")
def test_its_name_works_in_sweeps_and_on_the_command_line(tmp_path: Path) -> None:
    spec: Any = {
        "episodes": 50, "seeds": 2, "problem": {"name": "machine"}, "learners": [{"name": NAME}],
    }  # fmt: skip
    swept = ss.experiments.sweep(spec, tmp_path / "store", workers=1, progress=False)
    assert len(swept.finished) == 2
    assert not swept.failed
    arguments = ["run", "machine", "--learner", NAME, "--episodes", "50", "--seeds", "1", "--json"]
    told = CliRunner().invoke(
        cli.app, [*arguments, "--out", str(tmp_path / "run")], catch_exceptions=False
    )
    assert json.loads(told.stdout)["failed"] == {}


def test_an_edit_of_it_is_noticed_by_the_cache_of_compiled_code(package: Path) -> None:
    code = (
        "import safespot as ss\n"
        "problem = ss.problems.make('random', states=3, actions=2, horizon=2, seed=2)\n"
        f"learner = ss.learners.make('{NAME}', problem.interface, episodes=40)\n"
        "ss.learn(problem, learner); print(learner.policy.min() * 2)"
    )
    path = f"{package.parent}:{':'.join(sys.path)}"
    assert float(run_python(code, PYTHONPATH=path)) == pytest.approx(0.1)
    text = package.read_text()
    package.write_text(
        text.replace("rates.share / A", "2 * rates.share / A").replace(
            "1.0 - rates.share", "1.0 - 2 * rates.share"
        )
    )
    assert float(run_python(code, PYTHONPATH=path)) == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere_at_all:Greedy", "cannot be imported"),
        ("json:dumps", "not a subclass"),
        ("json:nothing", "cannot be imported"),
        ("sopt", "did you mean `spot`"),
    ],
)
def test_what_is_not_a_learner_is_said(name: str, said: str) -> None:
    with pytest.raises(ss.errors.UnknownName, match=said):
        ss.learners.find(name)
