"""Callbacks: called at recorded episodes with their record, they can stop a run, and trackers write it down."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import safespot as ss
from safespot.errors import InvalidOption


def uniform(problem: ss.Problem, episodes: int = 50) -> ss.Uniform:
    return ss.Uniform(**problem.interface, episodes=episodes)


@pytest.mark.parametrize("record", ["log", 7, "all"])
def test_it_sees_every_recorded_episode_and_changes_nothing(record: Any) -> None:
    machine = ss.problems.make("machine")
    seen: list[ss.training.Recorded] = []
    run = ss.learn(machine, uniform(machine), record=record, callback=seen.append)
    plain = ss.learn(machine, uniform(machine), record=record)
    for name, column in plain.frame().items():
        assert np.array_equal(column, run.frame()[name]), name
    assert [each.episode for each in seen] == plain.episodes.tolist()
    assert [each.value for each in seen] == plain.values.tolist()
    assert [each.regret for each in seen] == plain.regret.tolist()
    assert np.array_equal([each.violations for each in seen], plain.violations)
    lower, upper = plain.evidence.violation_bounds
    assert np.array_equal([each.violation_bounds[0] for each in seen], lower)
    assert np.array_equal([each.violation_bounds[1] for each in seen], upper)
    assert np.array_equal([each.threshold_bounds[1] for each in seen], plain.threshold_bounds[1])


def test_false_stops_right_there_and_nothing_else_does() -> None:
    machine = ss.problems.make("machine")
    learner = uniform(machine)
    run = ss.learn(machine, learner, record=10, callback=lambda record: record.episode < 20)
    assert run.episodes.tolist() == [1, 10, 20]
    assert (learner.episode, run.played) == (21, 20)
    rest = ss.learn(machine, learner, record=10, callback=lambda record: None)
    whole = ss.learn(machine, uniform(machine), record=10)
    assert rest.values[-1] == whole.values[-1]
    assert np.array_equal(learner.statistics.n, whole.learner.statistics.n)


def test_in_an_environment_too() -> None:
    env = ss.gym.ProblemEnv("machine")
    seen: list[ss.training.Recorded] = []

    def look(record: ss.training.Recorded) -> bool:
        seen.append(record)
        return len(seen) < 3

    learner = ss.Uniform(**ss.gym.env_interface(env), episodes=50)
    run = ss.learn(env, learner, record=5, callback=look)
    assert run.episodes.tolist() == [1, 5, 10]
    assert [each.episode for each in seen] == run.episodes.tolist()
    assert [each.value for each in seen] == run.values.tolist()
    assert seen[0].regret is None
    assert "regret" not in seen[0].scalars()


def test_an_error_in_it_is_the_users_and_leaves_the_learner_whole() -> None:
    machine = ss.problems.make("machine")
    learner = uniform(machine)
    with pytest.raises(ZeroDivisionError):
        ss.learn(machine, learner, record=10, callback=lambda record: 1 / (record.episode - 10))
    assert learner.episode == 11
    with pytest.raises(InvalidOption, match="callback must be a function"):
        ss.learn(machine, learner, callback="print")  # type: ignore[arg-type]


def test_scalars_go_by_the_names_of_limits() -> None:
    triage = ss.problems.make("triage")
    seen: list[ss.training.Recorded] = []
    ss.learn(triage, uniform(triage, 5), callback=seen.append)
    scalars = seen[-1].scalars()
    assert scalars["constraint/days off the ward"] == seen[-1].constraint_values[0]
    assert scalars["violation_at_most/days off intensive care"] == seen[-1].violation_bounds[1][1]


# --- Trackers, against the packages themselves


def test_tensorboard_reads_back_what_was_logged(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    machine = ss.problems.make("machine")
    with ss.training.TensorBoard(tmp_path / "logs") as board:
        run = ss.learn(machine, uniform(machine), record=10, callback=board)
    events = EventAccumulator(str(tmp_path / "logs"))
    events.Reload()
    for name, column in (("value", run.values), ("constraint/strain", run.constraint_values[:, 0])):
        found = events.Tensors(name)
        assert [each.step for each in found] == run.episodes.tolist()
        numbers = [each.tensor_proto.float_val[0] for each in found]
        assert numbers == pytest.approx(column.tolist(), rel=1e-6)


def test_mlflow_reads_back_what_was_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # a database needs more packages
    machine = ss.problems.make("machine")
    where = f"file:{tmp_path / 'runs'}"
    with ss.training.MLflow("machine", tracking_uri=where, run_name="first") as flow:
        run = ss.learn(machine, uniform(machine), record=10, callback=flow)
    client = mlflow.MlflowClient(where)
    kept = client.get_run(flow.run_id)
    assert kept.info.status == "FINISHED"
    assert kept.data.params["learner"] == "uniform"
    assert kept.data.params["episodes"] == "50"
    found = client.get_metric_history(flow.run_id, "constraint/strain")
    assert [each.step for each in found] == run.episodes.tolist()
    assert [each.value for each in found] == run.constraint_values[:, 0].tolist()


@pytest.mark.parametrize(
    ("package", "name"), [("tensorboard.summary", "TensorBoard"), ("mlflow", "MLflow")]
)
def test_a_missing_package_is_named(
    package: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ss.errors.MissingPackage, match=r"safespot\[trackers\]"):
        getattr(ss.training, name)("somewhere")


# --- Progress


def test_a_notebook_gets_a_bar(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    shown: list[dict[str, str]] = []

    class Handle:
        def update(self, data: dict[str, str], raw: bool) -> None:
            assert raw
            shown.append(data)

    class ZMQInteractiveShell:
        pass

    package, displays = ModuleType("IPython"), ModuleType("IPython.display")
    package.get_ipython = ZMQInteractiveShell  # type: ignore[attr-defined]
    displays.display = lambda *_, **__: Handle()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", displays)
    machine = ss.problems.make("machine")
    ss.learn(machine, uniform(machine), progress=True)
    assert 'value="50" max="50"' in shown[-1]["text/html"]
    assert "50 of 50 episodes" in shown[-1]["text/plain"]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("guarded", [False, True])
def test_a_callback_reads_its_learner_and_does_not_teach_it(guarded: bool) -> None:
    """It could be at any place of the run: the loop counts its episodes by the learner."""
    machine = ss.problems.make("machine")
    episode = ss.play(machine, [[1, 0], [1, 0]], ss.streams(0), 1)

    def learner() -> ss.Learner:
        made = uniform(machine)
        return ss.Guard(made, [[1, 0], [1, 0]], 40) if guarded else made

    attempts: dict[str, Any] = {
        "observe": lambda it: it.observe(episode),
        "observe the guarded one": lambda it: it.guarded.observe(episode),
        "learn": lambda it: ss.learn(machine, it, 3),
        "learn in an environment": lambda it: ss.learn(ss.gym.ProblemEnv("machine"), it, 3),
    }
    whole = ss.learn(machine, learner(), 30)
    for what, attempt in attempts.items():
        ours = learner()

        def teach(record: ss.training.Recorded, attempt: Any = attempt, ours: Any = ours) -> None:
            if record.episode == 10:
                attempt(ours)
            ours.act(0, 0, np.random.default_rng(0))
            assert ours.proposal is not None

        with pytest.raises(ss.errors.InUse) as raised:
            ss.learn(machine, ours, 30, callback=teach)
        run = raised.value.run  # type: ignore[attr-defined]
        assert (run.played, ours.episode) == (10, 11), what
        rest = ss.learn(machine, ours, 20)  # it goes on afterwards
        assert rest.values[-1] == whole.values[-1]
        assert np.array_equal(ours.statistics.n, whole.learner.statistics.n)
