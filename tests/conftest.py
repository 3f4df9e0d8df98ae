"""Hypothesis profiles: kernels compile on first use, so no test has a deadline; CI repeats itself.

``pytest --hypothesis-profile thorough`` looks much longer.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

from tests.support.browsing import browser

__all__ = ["browser"]  # a fixture

settings.register_profile(
    "local", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("ci", settings.get_profile("local"), derandomize=True)
settings.register_profile("thorough", settings.get_profile("local"), max_examples=2_000)
settings.register_profile(  # `make test-mutants` asks only whether something fails
    "mutants", settings.get_profile("ci"), max_examples=25, phases=[Phase.explicit, Phase.generate]
)
settings.load_profile("ci" if os.environ.get("CI") else "local")
