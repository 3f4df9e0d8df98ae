"""What `learn` may be asked for, interrupts, progress, memory."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot import _core
from safespot.learners import doubling
from safespot.learners import primal_dual as primal_dual_module
from safespot.spot import visits
from tests.support.processes import python
from tests.support.trails import (
    OPTIONS,
    by_hand,
    example,
    same,
    spot,
)
from tests.support.training_cases import Options

# --- What may be asked for


def test_beyond_the_planned_end_it_warns_and_goes_on(tmp_path: Path) -> None:
    problem = example()
    ours, theirs = (spot(problem, 100) for _ in range(2))
    with pytest.warns(UserWarning, match=r"an episode goes beyond .* T = 100 \(0 rem") as caught:
        by_hand(problem, theirs, 130, seed=0)
    assert len(caught) == 1  # in a loop of one's own, too, and once
    with pytest.warns(UserWarning, match=r"120 episodes go beyond the learner's T = 100 \(100 rem"):
        run = ss.learn(problem, ours, 120)
    assert run.episodes[-1] == 120
    with pytest.warns(UserWarning, match=r"T = 100 \(0 remain\)") as caught:
        ss.learn(problem, ours, 10)
    assert caught[0].filename == __file__  # it points at the caller
    same(ours, theirs, tmp_path)


def test_by_default_what_remains_is_played() -> None:
    problem = example()
    learner = spot(problem, 50)
    assert ss.learn(problem, learner, 20).episodes[-1] == 20
    assert ss.learn(problem, learner).episodes[[0, -1]].tolist() == [21, 50]
    with pytest.raises(ss.errors.InvalidOption, match="all of its 50 episodes; say how many more"):
        ss.learn(problem, learner)
    with pytest.raises(ss.errors.InvalidOption, match="say how many episodes"):
        ss.learn(problem, spot(problem, None))


BAD: list[Options] = [
    {"episodes": 0}, {"episodes": -3}, {"episodes": 2.0}, {"episodes": "3"}, {"episodes": True},
    {"record": "some"}, {"record": 0}, {"record": -1}, {"record": 1.5}, {"record": None},
    {"record": True}, {"record": ""},
    {"track": "all"}, {"track": None}, {"track": True}, {"track": 1},
    {"seed": -1}, {"seed": 0.5}, {"seed": None}, {"seed": "a"}, {"seed": True},
]  # fmt: skip


@pytest.mark.parametrize("options", BAD, ids=str)
def test_bad_options_are_refused_and_change_nothing(options: Options, tmp_path: Path) -> None:
    problem = example()
    learner, fresh = (spot(problem, 50) for _ in range(2))
    with pytest.raises(ss.errors.InvalidOption) as raised:
        ss.learn(problem, learner, **options)
    assert next(iter(options)) in str(raised.value)
    same(learner, fresh, tmp_path)


MISFITS: list[tuple[Options, str]] = [
    ({"states": 5}, "S=5"), ({"actions": 2}, "A=2"), ({"horizon": 4}, "H=4"),
    ({"constraints": 1, "senses": ">=", "ranges": None}, "m=1"),
    ({"start": 1}, "start"), ({"senses": ["<=", ">="]}, "senses or ranges"),
    ({"ranges": {"reward": (0, 2), "constraints": (0, 1)}}, "senses or ranges"),
    ({"ranges": {"reward": (0, 1), "constraints": [(0, 1), (0, 2)]}}, "senses or ranges"),
    ({"action_mask": np.ones((4, 3), bool)}, "does not admit"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), MISFITS, ids=str)
def test_a_learner_that_does_not_fit_is_refused(changes: Options, message: str) -> None:
    problem = example(mask="states")
    mask = problem.cmdp.actions
    assert mask is not None
    assert not mask.all()
    interface = {**problem.interface, **changes}
    if mask.shape != (interface["states"], interface["actions"]):
        interface["action_mask"] = None
    learner = ss.Spot(**interface, episodes=10, rho=1.0)
    with pytest.raises(ss.errors.InvalidOption, match=message):
        ss.learn(problem, learner)
    assert learner.episode == 1


def test_a_fixed_start_does_not_fit_a_distribution_but_learning_it_fits_both() -> None:
    spread = example(start=[0.5, 0.5, 0.0, 0.0])
    with pytest.raises(ss.errors.InvalidOption, match="start"):
        ss.learn(spread, ss.Spot(**{**spread.interface, "start": 0}, episodes=10, rho=1.0))
    fixed = example(start=1)
    learner = ss.Spot(**{**fixed.interface, "start": None}, episodes=10, rho=1.0)
    assert ss.learn(fixed, learner).learner.episode == 11


def test_a_learner_may_restrict_itself_further_than_the_problem(tmp_path: Path) -> None:
    problem = example()
    mask = np.ones((4, 3), bool)
    mask[:, 2] = False
    ours, theirs = (
        ss.Spot(**{**problem.interface, "action_mask": mask}, episodes=100, **OPTIONS)
        for _ in range(2)
    )
    by_hand(problem, theirs, 100, seed=0)
    ss.learn(problem, ours)
    same(ours, theirs, tmp_path)
    assert not ours.policy[..., 2].any()


@pytest.mark.parametrize("swap", ["cmdp", "name", "learner"])
def test_other_things_than_a_problem_and_a_learner_are_refused(swap: str) -> None:
    problem = example()
    learner: Any = spot(problem, 10)
    what: Any = {"cmdp": problem.cmdp, "name": "bandit", "learner": problem}[swap]
    learner = learner if swap != "learner" else "spot"
    with pytest.raises(ss.errors.InvalidOption, match=r"learn takes|environment"):
        ss.learn(what, learner)


# --- Interrupts and progress


TOTAL = {"estimator": "total", "threshold_scale": 1.0}


@pytest.mark.parametrize(
    ("module", "where", "options"),
    [(primal_dual_module, name, TOTAL) for name in ("softmax", "refresh_all", "derive_bounds")]
    + [(doubling, "make_radii", {}), (_core.Spot, "derive", {})],
)
def test_an_interrupt_while_an_epoch_begins(
    module: Any,
    where: str,
    options: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = example()
    theirs = spot(problem, None, **options)
    ss.learn(problem, theirs, 1200, seed=4)
    ours = spot(problem, None, **options)
    ss.learn(problem, ours, 1000, seed=4)
    original = getattr(module, where)
    calls = [0]

    def interrupting(*arguments: Any, **others: Any) -> Any:
        calls[0] += 1
        if calls[0] == 1:
            raise KeyboardInterrupt
        return original(*arguments, **others)

    with monkeypatch.context() as patched:
        patched.setattr(module, where, interrupting)
        with pytest.raises(KeyboardInterrupt):
            ss.learn(problem, ours, 200, seed=4)
    assert calls[0] > 1
    assert ours.episode == 1025
    ss.learn(problem, ours, 1200 - 1024, seed=4)
    same(ours, theirs, tmp_path)


INTERRUPTED = """
import signal, sys
# Where tests run in the background of a shell, a process is born with SIGINT ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
import safespot as ss
from tests.support.trails import example, spot
problem = example(sparse=True)
learner = spot(problem, None, window=0.5)
ss.learn(problem, learner, 100, seed=6)
print("learning", flush=True)
try:
    ss.learn(problem, learner, 10**9, seed=6)
except KeyboardInterrupt as interrupt:
    run = interrupt.run
    assert run.learner is learner
    assert 101 == run.episodes[0] <= run.episodes[-1] < learner.episode
    learner.save(sys.argv[1])
    print(learner.episode)
"""


def test_ctrl_c_in_the_middle_of_compiled_episodes(tmp_path: Path) -> None:
    process = python("-c", INTERRUPTED, str(tmp_path / "stopped"))
    assert process.stdout is not None
    assert process.stdout.readline() == "learning\n"
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    problem = example(sparse=True)
    whole = spot(problem, None, window=0.5)
    played = int(out) - 1
    assert played >= 100
    ss.learn(problem, whole, played, seed=6)
    stopped = ss.Spot.load(tmp_path / "stopped")
    same(stopped, whole, tmp_path)
    for learner in (stopped, whole):
        ss.learn(problem, learner, 500, seed=6)
    same(stopped, whole, tmp_path)


def test_progress_is_shown_and_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = example()
    quiet, loud = (spot(problem, 1500) for _ in range(2))
    want = ss.learn(problem, quiet)
    assert capsys.readouterr() == ("", "")
    got = ss.learn(problem, loud, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.split("\r")
    assert lines[0] == ""
    done = [int(line.split(" of ")[0].replace(",", "")) for line in lines[1:]]
    assert done[0] == 16
    assert done == sorted(set(done))
    last = r"1,500 of 1,500 episodes, [\d,]+ a second, 0 s left +\n"
    assert re.fullmatch(last, lines[-1])
    same(quiet, loud, tmp_path)
    assert want.regret.tobytes() == got.regret.tobytes()
    assert want.seconds > 0.0


# --- Memory


def test_a_pool_is_as_large_as_what_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visits, "DENSE", 0)
    problem = ss.problems.make("random", states=200, actions=5, horizon=5, successors=12)
    learner = spot(problem, 5000)
    for episodes in (1, 99, 1900, 3000):
        ss.learn(problem, learner, episodes)
        pool = learner.statistics.successors
        observed = int(pool.length.sum())
        assert learner.statistics.n.sum() == 5 * (learner.episode - 1)
        room, met = int(pool.room.sum()), int(learner.statistics.known.sum())
        assert observed <= room <= 2 * observed + visits.FIRST_ROOM * met
        spare = learner.statistics.n.size  # that an episode may need at worst
        assert len(pool.states) == len(pool.counts) <= visits.GROWTH * room + spare
    assert observed > 5000
    assert (pool.length > 4 * visits.FIRST_ROOM).any()  # lists have moved thrice
