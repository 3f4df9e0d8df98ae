from ..model.signals import Bernoulli as Bernoulli
from ..model.signals import Beta as Beta
from ..model.signals import ByOutcome as ByOutcome
from ..model.signals import Deterministic as Deterministic
from ..model.signals import Drift as Drift
from ..model.signals import Gaussian as Gaussian
from ..model.signals import Signals as Signals
from ..names import Names as Names
from .limits import Limit as Limit
from .totals import Totals as Totals

__all__: list[str]
