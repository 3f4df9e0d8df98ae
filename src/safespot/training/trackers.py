"""Callbacks that write a run where people of this field already look: TensorBoard and MLflow.

    ss.learn(problem, learner, callback=ss.training.TensorBoard("logs/machine"))
    ss.learn(problem, learner, callback=ss.training.MLflow("machine"))

Both packages come with the extra ``safespot[trackers]`` and are imported when a tracker is made. Every number of a
record is written under its name (`Recorded.scalars`) at its episode.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import TracebackType
from typing import Any

from ..errors import MissingPackage
from .recorded import Recorded

FORBIDDEN = re.compile(r"[^\w ./-]")  # in the names of MLflow's metrics


class TensorBoard:
    """Writes every recorded episode as an event file that TensorBoard shows.

    Examples:
        >>> import safespot as ss
        >>> problem = ss.problems.make("machine")
        >>> try:
        ...     with ss.training.TensorBoard("logs") as board:
        ...         run = ss.learn(problem, ss.Uniform(**problem.interface, episodes=100), callback=board)
        ... except ss.errors.MissingPackage:  # it needs the extra safespot[trackers]
        ...     pass

    """

    def __init__(self, folder: str | Path) -> None:
        try:
            from tensorboard.summary import Writer
        except ImportError:
            raise MissingPackage(
                "ss.training.TensorBoard needs the package tensorboard: pip install 'safespot[trackers]'."
            ) from None
        self._writer: Any = Writer(str(folder))

    def __call__(self, record: Recorded) -> None:
        """Write a record; it can be seen at once."""
        for name, value in record.scalars().items():
            self._writer.add_scalar(name, value, record.episode)
        self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        self._writer.close()

    def __enter__(self) -> TensorBoard:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class MLflow:
    """Writes every recorded episode to an MLflow run: metrics by name, the learner and its options as parameters.

    Args:
        experiment: the name of the experiment, which is made where there is none.
        tracking_uri: where MLflow keeps its runs; None: MLflow's own setting.
        run_name: of the run; None: MLflow invents one.

    Examples:
        >>> import safespot as ss
        >>> problem = ss.problems.make("machine")
        >>> try:
        ...     with ss.training.MLflow("machine", tracking_uri="sqlite:///runs.db") as flow:
        ...         run = ss.learn(problem, ss.Uniform(**problem.interface, episodes=100), callback=flow)
        ... except ss.errors.MissingPackage:  # it needs the extra safespot[trackers]
        ...     pass

    """

    def __init__(
        self, experiment: str, tracking_uri: str | None = None, run_name: str | None = None
    ) -> None:
        try:
            from mlflow import MlflowClient
        except ImportError:
            raise MissingPackage(
                "ss.training.MLflow needs the package mlflow: pip install 'safespot[trackers]'."
            ) from None
        self._client: Any = MlflowClient(tracking_uri)
        entry = self._client.get_experiment_by_name(experiment)
        number = (
            self._client.create_experiment(experiment) if entry is None else entry.experiment_id
        )
        self.run_id: str = self._client.create_run(number, run_name=run_name).info.run_id
        self._told = False

    def __call__(self, record: Recorded) -> None:
        """Write a record, before the first one the learner."""
        if not self._told:
            self._told = True
            learner = record.learner
            options = {
                name: value for name, value in vars(learner.options).items() if _short(value)
            }
            for name, value in {"learner": learner.name, **options}.items():
                self._client.log_param(self.run_id, name, value)
        for name, value in record.scalars().items():
            self._client.log_metric(
                self.run_id, FORBIDDEN.sub("_", name), value, step=record.episode
            )

    def close(self) -> None:
        """Say that the run has ended."""
        self._client.set_terminated(self.run_id)

    def __enter__(self) -> MLflow:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.set_terminated(self.run_id, "FINISHED" if kind is None else "FAILED")


def _short(value: object) -> bool:
    """Return whether a parameter's value is short enough for people to read."""
    return isinstance(value, str | int | float | bool | tuple) and len(str(value)) <= 200
