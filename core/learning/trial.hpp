// A trial: the episodes of one policy that was fixed before them, until its safety is decided.
//
// With N episodes before it that have shown the threshold, and n of its own to come, it watches
//
//     Y = sum_h (g_h - w x_h),    w = n / (N + n),    whose mean is V_g - w alpha,
//
// and what is left of alpha is bounded by the samples before it. The two are evidence about one
// number, V_g - alpha, and are taken together: squares of radii add up, not radii (docs/epochs.md).
#pragma once

#include "sequences.hpp"
#include "totals.hpp"

namespace safespot {

// Evidence about thresholds from before a trial; rows 2i and 2i+1 for the sides of constraint i.
struct ThresholdPrior {
    ConstFloats<1> weight;     // [m]: w
    ConstFloats<2> log_terms;  // [2m, K]: log e(z) = log sum_k exp(log_terms_k - slopes_k z)
    ConstFloats<2> slopes;     // [2m, K]; 0 where there is none
    ConstFloats<2> limits;     // [2, m]: the range that it is about
};

// Evidence against "the mean is at most z" of a mixture of the product form.
struct LogEvidence {
    static constexpr Index K = FixedMean::K;
    Array<K> terms, slopes;

    static LogEvidence of(ConstFloats<1> terms, ConstFloats<1> slopes) {
        const auto copy = [](ConstFloats<1> row) { return tabulate<K>([&](Index k) { return row[k]; }); };
        return {copy(terms), copy(slopes)};
    }

    static LogEvidence of(const FixedMean& sequence, const Targets& targets) {
        const Floats<1> slopes = sequence.slope();
        return {sequence.log_terms(targets), tabulate<K>([&](Index k) { return slopes[k]; })};
    }

    // log e(z), and how fast it falls at z.
    struct Value {
        double log, fall;
    };
    Value at(double z) const {
        double top = -std::numeric_limits<double>::infinity(), total = 0.0, slope = 0.0;
        for (Index k = 0; k < K; ++k) top = std::max(top, terms[k] - slopes[k] * z);
        for (Index k = 0; k < K; ++k) {
            const double part = std::exp(terms[k] - slopes[k] * z - top);
            total += part;
            slope += slopes[k] * part;
        }
        return {top + std::log(total), slope / total};
    }
    double crossing(double level) const { return safespot::crossing<K>(terms, slopes, level); }
};

// The least `w u + w2 v`, u >= 0 and v in [0,1], where the evidence about both, multiplied, is at
// most `level`.
//
// The least u falls in v, and the sum is convex in v: its derivative is bisected, and the tangent at
// the left end of what remains lies below the minimum.
inline double least_sum(const LogEvidence& first, double w, const LogEvidence& second, double w2, double level) {
    struct Point {
        double u, rise;
    };
    const auto least_first = [&](double v) -> Point {
        const LogEvidence::Value there = second.at(v);
        const double u = first.crossing(level - there.log);
        if (u <= 0.0) return {0.0, 0.0};
        return {u, -there.fall / first.at(u).fall};
    };
    double low = 0.0, high = 1.0;
    Point left = least_first(low);
    if (w * left.rise + w2 >= 0.0) return w * left.u;
    for (int halving = 0; halving < 40; ++halving) {
        const double middle = 0.5 * (low + high);
        const Point there = least_first(middle);
        if (w * there.rise + w2 < 0.0) {
            low = middle;
            left = there;
        } else {
            high = middle;
        }
    }
    return w * left.u + w2 * low + (w * left.rise + w2) * (high - low);
}

enum class Verdict : Int { open = 0, kept = 1, broken = 2, issued = 3 };

struct Trial {
    Declared declared;
    Targets targets;
    double kept_level, broken_level;  // ln(1/share) of a lower and of an upper bound
    bool eager;                       // whether bounds are read after every episode
    Floats<2> rows;                   // [2+4m or 2+6m, FixedMean::width]
    ThresholdPrior prior;

    // An episode of these sums; the verdict on all limits together, as soon as there is one.
    // `lower` and `upper` [m] bound thresholds of which the prior says nothing; `x` is a buffer.
    Verdict observe(ConstFloats<1> sums, Verdict verdict, ConstFloats<1> lower, ConstFloats<1> upper,
                    Floats<1> x) const {
        declared.state([&](Index i) { return prior.weight[i]; }, sums, x);
        for (Index r = 0; r < rows.extent(0); ++r) FixedMean(rows[r]).observe(targets, x[r]);
        if (verdict != Verdict::open) return verdict;
        bool kept = true, broken = false;
        for (Index i = 0; i < declared.m(); ++i) {
            if (eager || FixedMean(rows[2 + 2 * i]).is_due()) read(i, lower[i], upper[i]);
            const Ends margin = declared.interval(bound(2 + 2 * i), bound(3 + 2 * i), i);
            kept &= margin.low >= 0.0;
            broken |= margin.high < 0.0;
        }
        return broken ? Verdict::broken : kept ? Verdict::kept : Verdict::open;
    }

    // Raise the bounds of V_g - alpha of constraint i to what the episodes prove, in parts of D's
    // range. Below, V_g - alpha = mean of Y - (1 - w) alpha is least where Y's mean u is and the
    // threshold's share v of its range, from above, is; and likewise above.
    void read(Index i, double lower, double upper) const {
        const double w = prior.weight[i], rest = 1.0 - w;
        for (Index side = 0; side < 2; ++side) {
            const Index row = 2 + 2 * i + side, other = 2 * i + 1 - side;
            const FixedMean sequence(rows[row]);
            const double level = side == 0 ? kept_level : broken_level;
            if (w == 1.0) {
                sequence.read(targets, level);
                continue;
            }
            const Declared::Range range = declared.range(w, i);
            const double lowest = prior.limits(0, i), highest = prior.limits(1, i);
            const LogEvidence own = LogEvidence::of(sequence, targets);
            double bound = 0.0, alpha = 0.0;
            if (prior.slopes(other, 0) > 0.0) {
                const auto before = LogEvidence::of(prior.log_terms[other], prior.slopes[other]);
                bound = least_sum(own, range.width, before, rest * (highest - lowest), level);
                alpha = side == 0 ? highest : lowest;
            } else {
                bound = range.width * std::max(own.crossing(level), 0.0);
                alpha = side == 0 ? upper : lower;
            }
            const double end =
                side == 0 ? range.least + bound - rest * alpha : range.least + range.width - bound - rest * alpha;
            const double share = (end - declared.least[i]) / declared.width[i];
            sequence.lower() = std::max(sequence.lower(), within(side == 0 ? share : 1.0 - share));
        }
    }

    double bound(Index row) const { return FixedMean(rows[row]).lower(); }
};

}  // namespace safespot
