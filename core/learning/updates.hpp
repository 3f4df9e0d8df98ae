// The two updates of Algorithm 2: mirror ascent on the policy (line 6) and the projected dual step
// (line 8).
#pragma once

#include <algorithm>
#include <bit>

#include "sums.hpp"

namespace safespot {

// x[k] = exp(x[k]) for x <= 0, to about one unit in the last place; zero below exp(-708).
//
// exp(x) = 2^k exp(r) with k = round(x / ln 2), and exp(r) by its Taylor series, summed in
// Estrin's order: plain arithmetic, so that the loop is vectorized and has the same bits everywhere.
inline void exponentials(Floats<1> x) {
    constexpr double lowest = -708.0;  // exp of less is not a normal double
    constexpr double log2_e = 1.4426950408889634;
    constexpr double ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;
    constexpr double round = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to a whole number
    constexpr auto c = [] {                       // 1 / k!
        std::array<double, 14> inverse{};
        double factorial = 1.0;
        for (int k = 1; k < 14; ++k) inverse[k] = 1.0 / (factorial *= k);
        return inverse;
    }();
#pragma GCC ivdep
    for (Index k = 0; k < x.extent(0); ++k) {
        const double y = std::max(x[k], lowest), rounded = y * log2_e + round;
        const double whole = rounded - round;
        const double r = (y - whole * ln2_high) - whole * ln2_low, r2 = r * r, r4 = r2 * r2;
        const double low = ((1.0 + r) + r2 * (c[2] + c[3] * r)) + r4 * ((c[4] + c[5] * r) + r2 * (c[6] + c[7] * r));
        const double high = ((c[8] + c[9] * r) + r2 * (c[10] + c[11] * r)) + r4 * (c[12] + c[13] * r);
        // The whole number stands in the lowest bits of `rounded`: the double 2^whole.
        const auto bits = std::bit_cast<std::uint64_t>(rounded);
        const auto power = std::bit_cast<double>((bits + 1023) << 52);
        x[k] = x[k] < lowest ? 0.0 : (low + (r4 * r4) * high) * power;
    }
}

// From logits, of which `x` holds a copy and room for three more, to probabilities: rows of A
// entries that lie one behind the other.
//
// Where a sum of exponentials falls below one half, the row's logits are lifted until the largest
// is 0: the same policy, and nothing underflows.
inline void normalize(Floats<1> logits, Floats<1> pi, Index A, Floats<1> x) {
    const Index n = logits.extent(0), padded = (n + 3) / 4 * 4;  // a vector's rest takes as long
    for (Index k = n; k < padded; ++k) x[k] = 0.0;
    exponentials(x.part(0, padded));
    const auto lift = [&](Index first) {
        double top = logits[first];
        for (Index a = 1; a < A; ++a) top = std::max(top, logits[first + a]);
        for (Index a = 0; a < A; ++a) x[first + a] = logits[first + a] -= top;
        exponentials(x.part(first, first + A));
        double sum = 0.0;
        for (Index a = 0; a < A; ++a) sum += x[first + a];
        return sum;
    };
    with_width(A, [&](auto width) {
        for (Index first = 0; first < n; first += width) {
            double sum = row_sum(width, [&](Index a) { return x[first + a]; });
            if (sum < 0.5) sum = lift(first);
            const double factor = 1.0 / sum;
            for (Index a = 0; a < width; ++a) pi[first + a] = x[first + a] * factor;
        }
    });
}

// pi(a) = exp(logit) / sum for rows of A entries; logits are at most 0.
inline void softmax(Floats<1> logits, Floats<1> pi, Index A, Floats<1> x) {
    std::copy_n(logits.data(), logits.extent(0), x.data());
    normalize(logits, pi, A, x);
}

// Line 6: pi(a) <- pi(a) exp(eta Q(a)) / sum.
//
// The policy is kept as logits, so that no probability is ever locked at zero; inadmissible actions
// have a logit of -inf (D6). Q is at most 0, so that logits only fall.
inline void mirror_ascent(Floats<1> logits, Floats<1> pi, ConstFloats<1> Q, double eta, Index A, Floats<1> x) {
#pragma GCC ivdep
    for (Index k = 0; k < logits.extent(0); ++k) x[k] = logits[k] = logits[k] + eta * Q[k];
    normalize(logits, pi, A, x);
}

// Line 8: lambda_i <- clip(lambda_i + (alpha_i - V_{g_i}) / eta_lambda, 0, rho).
inline double dual_step(double lambda, double alpha, double value, double step, double rho) {
    return std::min(std::max(lambda + step * (alpha - value), 0.0), rho);
}

}  // namespace safespot
