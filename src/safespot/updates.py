"""The two updates of Algorithm 2: mirror ascent on the policy (line 6) and the projected dual step (line 8)."""

from __future__ import annotations

import numpy as np

from .arrays import Bool, Float
from .compilation import inner

LOWEST = -708.0  # exp of less is not a normal double; the logit remembers, the probability is zero
LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # ln 2 in two parts
ROUND = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to a whole number, kept in the low bits
TAYLOR = tuple(1.0 / np.prod(np.arange(1.0, k + 1.0)) for k in range(14))


@inner
def exponentials(x: Float, n: int, work: Float) -> None:
    """``x[:n] = exp(x[:n])`` for x <= 0, to about one unit in the last place; zero below exp(-708).

    exp(x) = 2^k exp(r) with k = round(x / ln 2), and exp(r) by its Taylor series: plain arithmetic, so
    that the loop is vectorised and gives the same bits everywhere. `work` is as long as `x`.
    """
    for j in range(n):
        work[j] = max(x[j], LOWEST) * LOG2_E + ROUND
    bits = work.view(np.int64)
    for j in range(n):
        k = work[j] - ROUND
        y = max(x[j], LOWEST)
        r = (y - k * LN2_HIGH) - k * LN2_LOW
        value = TAYLOR[13]
        value = value * r + TAYLOR[12]
        value = value * r + TAYLOR[11]
        value = value * r + TAYLOR[10]
        value = value * r + TAYLOR[9]
        value = value * r + TAYLOR[8]
        value = value * r + TAYLOR[7]
        value = value * r + TAYLOR[6]
        value = value * r + TAYLOR[5]
        value = value * r + TAYLOR[4]
        value = value * r + TAYLOR[3]
        value = value * r + TAYLOR[2]
        value = value * r + TAYLOR[1]
        value = value * r + TAYLOR[0]
        x[j] = 0.0 if x[j] < LOWEST else value
    for j in range(n):
        bits[j] = (bits[j] + 1023) << 52
    for j in range(n):
        x[j] *= work[j]


@inner
def mirror_ascent(
    logits: Float, pi: Float, Q: Float, eta: float, moving: Bool, x: Float, work: Float
) -> bool:
    """Line 6: ``pi_h(a|s) <- pi_h(a|s) exp(eta Q_h(s,a)) / sum`` where `moving` ``[H,S]``; whether anywhere.

    Kept as `logits` ``[H,S,A]`` with a largest entry of zero in each row, so that no probability is ever
    locked at zero; inadmissible actions have a logit of -inf (D6). `Q` is ``[H, S*A]``; `x` and `work` have
    H*S*A entries.
    """
    H, S, A = pi.shape
    moved = False
    for h in range(H):
        for s in range(S):
            if moving[h, s]:
                moved = True
                top = -np.inf
                for a in range(A):
                    logits[h, s, a] += eta * Q[h, s * A + a]
                    top = max(top, logits[h, s, a])
                for a in range(A):
                    logits[h, s, a] -= top
    if moved:
        softmax(logits, pi, moving, x, work)
    return moved


@inner
def softmax(logits: Float, pi: Float, moving: Bool, x: Float, work: Float) -> None:
    """``pi_h(a|s) = exp(logit) / sum`` where `moving` ``[H,S]``; the largest logit of a row is zero."""
    H, S, A = pi.shape
    n = 0
    for h in range(H):
        for s in range(S):
            if moving[h, s]:
                for a in range(A):
                    x[n + a] = logits[h, s, a]
                n += A
    exponentials(x, n, work)
    n = 0
    for h in range(H):
        for s in range(S):
            if moving[h, s]:
                total = 0.0
                for a in range(A):
                    total += x[n + a]
                share = 1.0 / total
                for a in range(A):
                    pi[h, s, a] = x[n + a] * share
                n += A


@inner
def dual_step(lam: Float, alpha: Float, values: Float, step: float, rho: float) -> None:
    """Line 8: ``lambda_i <- clip(lambda_i + (alpha_i - V_{g_i}) / eta_lambda, 0, rho)``, step = 1 / eta_lambda."""
    for i in range(lam.shape[0]):
        lam[i] = min(max(lam[i] + step * (alpha[i] - values[i]), 0.0), rho)
