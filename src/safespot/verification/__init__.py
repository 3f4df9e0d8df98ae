"""The paper's claims and ours, measured: experiments, judged by statistical tests.

    verify("results/verify", size="quick")      -> Verification: what was judged, and where the page is

Data flows down: `sweeps` says which runs there are at each size, `measurements` reads them from the store, each claim's
module judges what it finds, `page` and `document` write it down. See docs/verifying.md.
"""

from __future__ import annotations

from .verifying import Verification, verify

__all__ = ["Verification", "verify"]
