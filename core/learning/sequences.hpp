// Confidence sequences: bounds of means that hold at every moment at once, from a row of numbers.
//
// Everything is a *lower* bound for variables x in [0,1]. Let E_t be the mean of x_t given the past, and let the guess
// c_t and the weight l_t >= 0 be chosen before x_t is seen, l_t c_t < 1. As 1 + l (E - c) <= exp(l (E - c)),
//
//     M_t = prod_{i<=t} (1 + l_i (x_i - c_i)) exp(-l_i (E_i - c_i))
//
// is a non-negative supermartingale from 1 on, and so is a mixture of several: it ever reaches 1/share with probability
// at most `share` (Ville). What E would have to be for that is a bound; levels are ln(1/share). docs/evidence.md has
// the proofs. A sequence is a view of one row of doubles, which `reset` makes that of no numbers.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "sums.hpp"

namespace safespot {

template <Index K>
using Array = std::array<double, K>;

// f(0), …, f(K - 1)
template <Index K, class F>
constexpr Array<K> tabulate(const F& f) {
    Array<K> table{};
    for (Index k = 0; k < K; ++k) table[k] = f(k);
    return table;
}

// The logarithms of weights that sum to one; they are added as NumPy does.
template <Index K>
Array<K> log_prior(const Array<K>& weights) {
    static_assert(K % 8 == 0);
    const double sum = pairwise<8>([&](Index k) {
        double part = weights[k];
        for (Index j = k + 8; j < K; j += 8) part += weights[j];
        return part;
    });
    return tabulate<K>([&](Index k) { return std::log(weights[k] / sum); });
}

// largest * 3^-k
constexpr double thirds(double largest, Index k) {
    double power = 1.0;
    while (k-- > 0) power *= 3.0;
    return largest * (1.0 / power);
}

// The z with log sum_k exp(terms_k - slopes_k z) = level, or a little less; slopes are positive.
//
// The left side falls in z and is convex, and where a single summand crosses it has not yet fallen to `level`: Newton's
// steps come from the left and never pass the root, so that wherever they end is a lower bound.
template <Index K, class Slopes>
double crossing(const Array<K>& terms, const Slopes& slopes, double level) {
    constexpr double lowest = -std::numeric_limits<double>::infinity();
    double z = lowest;
    for (Index k = 0; k < K; ++k) z = std::max(z, (terms[k] - level) / slopes[k]);
    for (int step = 0; step < 100; ++step) {
        double top = lowest, total = 0.0, slope = 0.0;
        for (Index k = 0; k < K; ++k) top = std::max(top, terms[k] - slopes[k] * z);
        for (Index k = 0; k < K; ++k) {
            const double part = std::exp(terms[k] - slopes[k] * z - top);
            total += part;
            slope += slopes[k] * part;
        }
        const double move = (top + std::log(total) - level) * total / slope;
        if (!(move > 1e-12 * std::abs(z))) break;
        z += move;
    }
    return z;
}

inline constexpr double largest_bet = 0.9;  // of l c: the smallest factor is 1 - largest_bet

// prod (1 + l_k y) of a mixture, but for powers of two that are set aside every 128 factors: these
// lie in [0.1, 65], so that nothing overflows.
struct Products {
    Floats<1> product, power;  // [K]

    void set_powers_aside(double counted) const {
        if (std::fmod(counted, 128.0) != 0.0) return;
        for (Index k = 0; k < product.extent(0); ++k) {
            int exponent = 0;
            product[k] = std::frexp(product[k], &exponent);
            power[k] += exponent;
        }
    }
    double log(Index k) const {
        constexpr double ln2 = 0.69314718055994530942;
        return std::log(product[k]) + ln2 * power[k];
    }
};

// A bound on sum_t E_t, whatever the means do: weights that never change.
class ChangingMeans {
public:
    static constexpr Index K = 8;
    static constexpr Index width = 2 + 3 * K;
    // From a few rare events to a hundred million episodes.
    static constexpr Array<K> weights = tabulate<K>([](Index k) { return thirds(6.0, k); });
    static constexpr Array<K> caps = tabulate<K>([](Index k) { return largest_bet / weights[k]; });  // of the guess

    // Most of the prior where totals of 10^2 to 10^5 episodes have their best weight.
    static inline const Array<K> prior = log_prior<K>(tabulate<K>([](Index k) {
        const double distance = std::log(weights[k] / 0.5);
        return 1.0 / (1.0 + distance * distance);
    }));

    explicit ChangingMeans(Floats<1> row) : row_(row) {}

    double& counted() const { return row_[0]; }
    double& total() const { return row_[1]; }                // sum of x
    Floats<1> drift() const { return row_.part(2, 2 + K); }  // sum of y = x - c
    Products products() const { return {row_.part(2 + K, 2 + 2 * K), row_.part(2 + 2 * K, width)}; }

    void reset() const {
        for (Index k = 0; k < width; ++k) row_[k] = 0.0;
        for (Index k = 0; k < K; ++k) products().product[k] = 1.0;
    }

    // The guess is the mean so far, as large as each weight allows.
    void observe(double x) const {
        const double seen = counted() + 1.0, guess = (0.5 + total()) * (1.0 / seen);
        const Products all = products();
        const Floats<1> sums = drift();
#pragma GCC ivdep
        for (Index k = 0; k < K; ++k) {
            const double y = x - std::min(guess, caps[k]);
            all.product[k] *= 1.0 + weights[k] * y;
            sums[k] += y;
        }
        total() += x;
        counted() = seen;
        all.set_powers_aside(seen);
    }

    // With u = sum E - sum x it is sum E - sum c = u + drift, and u solves
    // sum_k prior_k product_k exp(-l_k (u + drift_k)) = 1/share.
    double bound(double level) const {
        const auto terms = tabulate<K>([&](Index k) { return prior[k] + products().log(k) - weights[k] * drift()[k]; });
        return std::max(0.0, total() + crossing<K>(terms, weights, level));
    }

private:
    Floats<1> row_;
};

// The weights of a mixture for means that do not change, in units of 1 / the standard deviation:
// sqrt(2 L / N) is sharpest after N episodes, N = planned * 4^k around the planned number. The prior
// falls as 1 / (1 + k^2): half of it lies within a factor of 4.
struct Targets {
    static constexpr Index K = 16;
    Array<K> rate, log_prior;

    Targets(const Array<K>& rate, const Array<K>& log_prior) : rate(rate), log_prior(log_prior) {}
    // `factors`: how many an episode has.
    explicit Targets(double planned, double factors = 1.0) {
        constexpr double typical = 5.0;  // ln(1/share) with what the mixture costs
        rate = tabulate<K>([&](Index k) {
            const double episodes = planned * std::ldexp(1.0, 2 * (static_cast<int>(k) - 6));
            return std::sqrt(2.0 * typical / episodes) / std::sqrt(factors);
        });
        log_prior = safespot::log_prior<K>(tabulate<K>([](Index k) {
            const auto distance = static_cast<double>(k - 6);
            return 1.0 / (1.0 + distance * distance);
        }));
    }
};

// A bound on E where all E_t are one number, or at most one number, which is then bounded: weights
// follow the spread that was seen, and the bound is sharper.
class FixedMean {
public:
    static constexpr Index K = Targets::K;
    static constexpr Index width = 5 + 5 * K;

    explicit FixedMean(Floats<1> row) : row_(row) {}

    double& counted() const { return row_[0]; }
    double& total() const { return row_[1]; }     // sum of x
    double& squares() const { return row_[2]; }   // sum of y^2, y = x - c
    double& lower() const { return row_[3]; }     // the best bound so far
    double& due() const { return row_[4]; }       // the count at which it is read again
    Floats<1> weight() const { return part(0); }  // l, of the coming numbers
    Floats<1> slope() const { return part(1); }   // sum of l
    Floats<1> offset() const { return part(2); }  // sum of l c
    Products products() const { return {part(3), part(4)}; }

    void reset() const {
        for (Index k = 0; k < width; ++k) row_[k] = 0.0;
        for (Index k = 0; k < K; ++k) products().product[k] = 1.0;
        due() = 1.0;
    }

    // A guess for the next x: the mean so far, and one half at first.
    double guess() const { return (0.5 + total()) / (counted() + 1.0); }

    void observe(const Targets& targets, double x) const {
        const double expected = guess();
        choose_weights(targets, expected);
        add_factor(x, expected);
    }

    // The weights of the coming numbers, none of which is guessed to be more than `largest`.
    void choose_weights(const Targets& targets, double largest) const {
        constexpr double first_variance = 1.0 / 16.0;  // counts as one episode
        const double precision = std::sqrt((counted() + 1.0) / (first_variance + squares()));
        const double most = std::min(64.0, largest_bet / largest);
        const Floats<1> weights = weight();
#pragma GCC ivdep
        for (Index k = 0; k < K; ++k) weights[k] = std::min(targets.rate[k] * precision, most);
    }

    // Count x, of which `expected` was guessed, with the weights that stand.
    void add_factor(double x, double expected) const {
        const Products all = products();
        const Floats<1> l = weight(), slopes = slope(), offsets = offset();
        const double y = x - expected;
#pragma GCC ivdep
        for (Index k = 0; k < K; ++k) {
            all.product[k] *= 1.0 + l[k] * y;
            slopes[k] += l[k];
            offsets[k] += l[k] * expected;
        }
        total() += x;
        squares() += y * y;
        counted() += 1.0;
        all.set_powers_aside(counted());
    }

    // Raise `lower` to what the numbers so far prove: the mean mu solves
    // sum_k prior_k product_k exp(offset_k - mu slope_k) = 1/share. All bounds hold at once.
    void read(const Targets& targets, double level) const {
        if (!(counted() > 0.0)) return;
        lower() = std::min(std::max(lower(), crossing<K>(log_terms(targets), slope(), level)), 1.0);
    }

    // Of the evidence against "the mean is at most z", sum_k exp(terms_k - slope_k z).
    Array<K> log_terms(const Targets& targets) const {
        return tabulate<K>([&](Index k) { return targets.log_prior[k] + products().log(k) + offset()[k]; });
    }

    // Whether it is to be read now: at counts that grow by one part in 32, so that reading costs
    // next to nothing per episode.
    bool is_due() const {
        if (!(counted() >= due())) return false;
        due() = counted() + std::max(1.0, std::floor(counted() / 32.0));
        return true;
    }
    void read_when_due(const Targets& targets, double level) const {
        if (is_due()) read(targets, level);
    }

private:
    Floats<1> part(Index j) const { return row_.part(5 + j * K, 5 + (j + 1) * K); }
    Floats<1> row_;
};

// A bound on the sum of E over a window that is fixed in advance: from y >= -1 follows
//
//     log(1 + l y) >= l y - l^2 y^2/2 + l^3 y^3/3 - kappa(l) l^4 y^4,
//
// and power sums stand for the product, since a number can be taken back from them.
class WindowSum {
public:
    static constexpr Index K = 8;
    static constexpr Index width = 4;  // sums of x, y^2, y^3 and y^4
    static constexpr Array<K> weights = tabulate<K>([](Index k) { return thirds(0.9, k); });
    static inline const Array<K> kappa = tabulate<K>([](Index k) {
        const double l = weights[k], l2 = l * l, l3 = l2 * l;
        return -(std::log1p(-l) + l + l2 / 2.0 + l3 / 3.0) / (l2 * l2);
    });

    explicit WindowSum(Floats<1> row) : row_(row) {}
    void reset() const { std::fill_n(row_.data(), width, 0.0); }
    double& total() const { return row_[0]; }

    // Add x = c + y (sign 1), or take it back (sign -1).
    void move(double x, double y, double sign = 1.0) const {
        row_[0] += sign * x;
        row_[1] += sign * (y * y);
        row_[2] += sign * (y * y * y);
        row_[3] += sign * (y * y * y * y);
    }

    double bound(double level) const {
        const auto terms = tabulate<K>([&](Index k) {
            const double l = weights[k], l2 = l * l, l3 = l * l * l, l4 = l * l * l * l;
            return -std::log(8.0) - l2 * row_[1] / 2.0 + l3 * row_[2] / 3.0 - kappa[k] * l4 * row_[3];
        });
        return std::max(0.0, row_[0] + crossing<K>(terms, weights, level));
    }

private:
    Floats<1> row_;
};

// A bound on the mean of a sample, where an episode has any number of them, which may share noise.
class SampleMean {
public:
    static constexpr Index K = 8;
    static constexpr Index width = 5;  // sums of n, s, s^2, s n and n^2
    static constexpr Array<K> weights = tabulate<K>([](Index k) { return thirds(0.5, k); });
    static inline const Array<K> psi = tabulate<K>([](Index k) { return -std::log1p(-weights[k]) - weights[k]; });

    explicit SampleMean(Floats<1> row) : row_(row) {}
    void reset() const { std::fill_n(row_.data(), width, 0.0); }

    // An episode with n samples that sum to s.
    void observe(double n, double s) const {
        row_[0] += n;
        row_[1] += s;
        row_[2] += s * s;
        row_[3] += s * n;
        row_[4] += n * n;
    }

    // The sums of 1 - x.
    Array<width> mirrored() const {
        const Floats<1>& r = row_;
        return {r[0], r[0] - r[1], r[4] - 2.0 * r[3] + r[2], r[4] - r[3], r[4]};
    }

    // The largest a up to which "the mean is at most a" is refuted. The evidence falls in a: its
    // exponents have the slope -l n + 2 psi(l) sum (s - n a) n / H <= (2 psi(l) - l) n, and
    // 2 psi(l) < l up to l = 1/2. So it may be bisected.
    double bound(double H, double level) const {
        const auto refuted = [&](double a) { return evidence(H, a) >= level; };
        double low = 0.0, high = 1.0;
        if (!refuted(low)) return low;
        for (int k = 0; k < 50; ++k) {
            const double middle = 0.5 * (low + high);
            (refuted(middle) ? low : high) = middle;
        }
        return low;
    }

private:
    // log sum_k prior_k exp(l_k sum z - psi(l_k) sum z^2) with z = (s - n a) / H, per episode: as
    // z >= -1, 1 + l z >= exp(l z - psi(l) z^2), a supermartingale if no sample's mean is above a.
    double evidence(double H, double a) const {
        const double z = (row_[1] - a * row_[0]) / H;
        const double squares = (row_[2] - 2.0 * a * row_[3] + a * a * row_[4]) / (H * H);
        const auto terms = tabulate<K>([&](Index k) { return -std::log(8.0) + weights[k] * z - psi[k] * squares; });
        const double top = *std::max_element(terms.begin(), terms.end());
        double total = 0.0;
        for (double term : terms) total += std::exp(term - top);
        return top + std::log(total);
    }

    Floats<1> row_;
};

// Bets against "the mean is at most mu": at a mean that is given no exponential is needed.
class Bets {
public:
    static constexpr Index K = ChangingMeans::K;
    static constexpr Index width = K;

    explicit Bets(Floats<1> row) : wealth_(row) {}
    void reset() const { std::fill_n(wealth_.data(), width, 0.0); }

    // wealth_k <- (fresh + wealth_k) (1 + l_k (x - mu)); returns the mixture.
    //
    // From wealth 1 with `fresh` = 0 it is a supermartingale under the claim, for every l < 1/mu.
    // From 0 with `fresh` = 1 each moment starts a bet of its own (Shiryaev-Roberts): the mixture
    // less the number of episodes is a supermartingale. A claim with mu < 0 is false, and any weight
    // wins.
    double observe(double fresh, double mu, double x) const {
        double total = 0.0;
        for (Index k = 0; k < K; ++k) {
            const double weight = ChangingMeans::weights[k];
            const double l = mu > 0.0 ? std::min(weight, largest_bet / mu) : weight;
            wealth_[k] = (fresh + wealth_[k]) * (1.0 + l * (x - mu));
            total += std::exp(ChangingMeans::prior[k]) * wealth_[k];
        }
        return total;
    }

private:
    Floats<1> wealth_;
};

}  // namespace safespot
