"""`learn`: play and observe, compiled, with regret and violation measured along the way; and what a run consists of."""

from ..evidence.meter import Evidence
from ..learners.mixture import Mixture
from .diagnosis import Finding
from .recorded import Recorded
from .trackers import MLflow, TensorBoard

__all__ = ["Evidence", "Finding", "MLflow", "Mixture", "Recorded", "TensorBoard"]
