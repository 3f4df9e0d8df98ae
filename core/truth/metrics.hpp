// Regret and violation, weak and strong, from exact values of every policy that was played.
//
// With the optimum V* and the limits alpha, the policy of episode t has a gap V* - V_r(pi_t) and
// shortfalls alpha_i - V_{g_i}(pi_t). Weak ones are summed as they are, strong ones where positive.
#pragma once

#include "values.hpp"

namespace safespot {

// What is written down at every episode of the grid, in inside units.
struct Record {
    View<const Int, 1> episodes;     // [grid], 1-based
    Floats<2> values;                // [grid, 1+m]: exact values of the policy played
    Floats<2> lambda, lower, upper;  // [grid, m]: of the learner, from the episodes before
    Floats<3> sums;                  // [grid, 2, 1+m]: weak and strong, the regret and each shortfall
    View<Int, 1> written;            // [1]: how many rows are filled

    bool wants(Int t) const { return written[0] < episodes.extent(0) && episodes[written[0]] == t; }
};

// Exact values of the policy in play, and what has been accumulated.
struct Tracker {
    Floats<1> values;         // [1+m]
    Floats<1> limits;         // [m]
    Floats<2> totals;         // [2, 1+m]
    Floats<1> last;           // [2]: the episode of the last accumulation, and its optimum
    Floats<1> before;         // [1+m]: the values there
    Floats<1> limits_before;  // [m]
    Occupancy occupancy;

    // Accumulate episode t; episodes since the last accumulation follow the trapezoidal rule.
    void track(double t, double optimum) const {
        const double skipped = t - last[0] - 1.0;
        if (skipped > 0.0) {  // the sum over the skipped ones of a straight line between both ends
            add(last[1], limits_before, before, skipped / 2.0);
            add(optimum, limits, values, skipped / 2.0);
        }
        add(optimum, limits, values, 1.0);
        last[0] = t;
        last[1] = optimum;
        for (Index c = 0; c < values.extent(0); ++c) before[c] = values[c];
        for (Index i = 0; i < limits.extent(0); ++i) limits_before[i] = limits[i];
    }

    void write(const Record& record, ConstFloats<1> lambda, ConstFloats<1> lower, ConstFloats<1> upper) const {
        const Index row = record.written[0]++;
        for (Index i = 0; i < lambda.extent(0); ++i) {
            record.lambda(row, i) = lambda[i];
            record.lower(row, i) = lower[i];
            record.upper(row, i) = upper[i];
        }
        for (Index c = 0; c < values.extent(0); ++c) {
            record.values(row, c) = values[c];
            record.sums(row, 0, c) = totals(0, c);
            record.sums(row, 1, c) = totals(1, c);
        }
    }

private:
    // One policy's gap and shortfalls, as often as it stands for episodes.
    void add(double optimum, ConstFloats<1> asked, ConstFloats<1> reached, double episodes) const {
        for (Index c = 0; c < reached.extent(0); ++c) {
            const double lost = (c == 0 ? optimum : asked[c - 1]) - reached[c];
            totals(0, c) += episodes * lost;
            totals(1, c) += episodes * std::max(lost, 0.0);
        }
    }
};

}  // namespace safespot
