// The constants of the confidence radii; they change only when T or delta do.
#pragma once

#include <algorithm>
#include <cmath>

namespace safespot {

struct Radii {
    double L_r;  // ln(S A H m T / delta), of signals and thresholds
    double L_p;  // ln(S A H T / delta), of transitions
    double L_b;  // ln(10 S^2 A H T / delta), of single transition probabilities (Bernstein)
    double H;
    double S;
    double bonus_scale;      // c
    double threshold_scale;  // k
    bool bernstein;
    bool clip;  // D2

    // sqrt(L_r / n): the signal's part of Eq. opt-p.
    double signal(double n) const { return std::sqrt(L_r / n); }

    // H sqrt((S + L_p) / n): the transitions' part of Eq. opt-p.
    double transition(double n) const { return H * std::sqrt((S + L_p) / n); }

    // Of a successor seen `count` of n >= 2 times: sqrt(2 p(1-p) l / (n-1)) + 7 l / (3 (n-1)), and
    // 0 if it was never seen: observed successors suffice.
    double successor(double n, double count) const {
        if (count == 0.0) return 0.0;
        const double p = count / n;
        const double root = std::sqrt(2.0 * p * (1.0 - p) * L_b / (n - 1.0));
        return root + 7.0 * L_b / (3.0 * (n - 1.0));
    }

    // zeta = min(1, k sqrt(4 ln(m S A H T / delta) / n)): Theorem 1.
    double threshold(double n) const { return std::min(1.0, threshold_scale * std::sqrt(4.0 * L_r / n)); }
};

}  // namespace safespot
