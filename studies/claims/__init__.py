"""The paper's claims and ours, measured: experiments, judged by statistical tests.

    python -m studies.claims [--size quick] [--out results/verify] [CLAIM ...]

Data flows down: `sweeps` says which runs there are at each size, `audit` adds what the lemmas speak of, `measurements`
reads both, each claim's module judges them, `document` writes it down. See studies/README.md.
"""

from __future__ import annotations

from .verifying import Verification, verify

__all__ = ["Verification", "verify"]
