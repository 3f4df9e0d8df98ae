#include <limits>

#include "simulation.hpp"

namespace safespot {
namespace {

// ln Gamma(x) for x > 0 by Stirling's series, after shifting x beyond 10: no library's bits.
double log_gamma(double x) {
    double shift = 1.0;
    for (; x < 10.0; x += 1.0) shift *= x;
    const double y = 1.0 / (x * x);
    // B_2k / (2k (2k-1)) for k = 1 to 7
    const double series =
        1.0 / 12.0 + y * (-1.0 / 360.0 +
                          y * (1.0 / 1260.0 +
                               y * (-1.0 / 1680.0 + y * (1.0 / 1188.0 + y * (-691.0 / 360360.0 + y * (1.0 / 156.0))))));
    constexpr double half_log_2_pi = 0.91893853320467274178;
    return (x - 0.5) * std::log(x) - x + half_log_2_pi + series / x - std::log(shift);
}

// The regularized incomplete beta function I_x(a, b), by Lentz' continued fraction.
//
// The fraction (Abramowitz and Stegun 26.5.8) converges fast for x < (a + 1) / (a + b + 2); the rest
// follows from I_x(a, b) = 1 - I_{1-x}(b, a).
double beta_cdf(double a, double b, double x) {
    if (x <= 0.0) return 0.0;
    if (x >= 1.0) return 1.0;
    const bool flip = x > (a + 1.0) / (a + b + 2.0);
    if (flip) {
        std::swap(a, b);
        x = 1.0 - x;
    }
    const double front =
        std::exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * std::log(x) + b * std::log1p(-x));
    constexpr double tiny = 1e-300;
    const auto nonzero = [](double y) { return std::abs(y) > tiny ? y : tiny; };
    double c = 1.0, d = 1.0 / std::max(1.0 - (a + b) * x / (a + 1.0), tiny), fraction = d;
    const auto add_term = [&](double term) {
        d = 1.0 / nonzero(1.0 + term * d);
        c = nonzero(1.0 + term / c);
        fraction *= c * d;
    };
    for (int k = 1; k < 500; ++k) {
        add_term(k * (b - k) * x / ((a + 2 * k - 1.0) * (a + 2 * k)));
        add_term(-(a + k) * (a + b + k) * x / ((a + 2 * k) * (a + 2 * k + 1.0)));
        if (std::abs(c * d - 1.0) < 1e-16) break;
    }
    const double tail = front * fraction / a;
    return flip ? 1.0 - tail : tail;
}

}  // namespace

// By bisection, to the last bit of a double near one half.
double beta_quantile(double a, double b, double u) {
    double low = 0.0, high = 1.0;
    for (int k = 0; k < 60; ++k) {
        const double middle = 0.5 * (low + high);
        (beta_cdf(a, b, middle) < u ? low : high) = middle;
    }
    return 0.5 * (low + high);
}

}  // namespace safespot
