"""Learners that SPOT is compared with, one file each; nothing else imports them."""

from __future__ import annotations

from .dope import DOPE
from .explore_then_plan import ExploreThenPlan
from .opt_cmdp import OptCMDP
from .opt_cmdp_bonus import OptCMDPBonus
from .opt_dual import OptDual
from .opt_pess_lp import OptPessLP
from .opt_pess_primal_dual import OptPessPrimalDual
from .opt_primal_dual import OptPrimalDual
from .posterior_sampling import PosteriorSampling
from .regularized import RegularizedPrimalDual

__all__ = [
    "DOPE",
    "ExploreThenPlan",
    "OptCMDP",
    "OptCMDPBonus",
    "OptDual",
    "OptPessLP",
    "OptPessPrimalDual",
    "OptPrimalDual",
    "PosteriorSampling",
    "RegularizedPrimalDual",
]
