"""The public names and where they live: what type checkers read, and what `__init__` looks names up in."""

from . import errors as errors
from . import experiments as experiments
from . import gym as gym
from . import learners as learners
from . import logs as logs
from . import problems as problems
from . import signals as signals
from . import theory as theory
from . import training as training
from .arrays import Episode as Episode
from .data.logs import Log as Log
from .data.logs import read_log as read_log
from .data.logs import write_log as write_log
from .errors import SafespotError as SafespotError
from .evidence.alarm import SafetyAlarm as SafetyAlarm
from .evidence.budget import Budget as Budget
from .evidence.certificate import Certificate as Certificate
from .evidence.lengths import episodes_needed as episodes_needed
from .evidence.meter import SafetyMeter as SafetyMeter
from .evidence.trial import Trial as Trial
from .judging.certify import certify as certify
from .judging.off_policy import evaluate_log as evaluate_log
from .judging.propose_log import propose as propose
from .learners import Fixed as Fixed
from .learners import Guard as Guard
from .learners import Learner as Learner
from .learners import Spot as Spot
from .learners import SpotEpochs as SpotEpochs
from .learners import Uniform as Uniform
from .model.cmdp import CMDP as CMDP
from .model.oracle import Evaluation as Evaluation
from .model.oracle import Slater as Slater
from .model.oracle import Solution as Solution
from .model.oracle import evaluate as evaluate
from .model.oracle import slater as slater
from .model.oracle import solve as solve
from .model.problem import Problem as Problem
from .model.simulation import play as play
from .model.simulation import streams as streams
from .signals.limits import Limit as Limit
from .signals.totals import Totals as Totals
from .storage.durable import DurableLearner as DurableLearner
from .storage.durable import open as open
from .training.learn import learn as learn
from .training.run import Run as Run

__all__: list[str]
__version__: str
_HOME: dict[str, str]
