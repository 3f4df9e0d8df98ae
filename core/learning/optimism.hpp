// Optimism: what planning reads of every pair, derived from the counts.
#pragma once

#include <limits>

#include "radii.hpp"
#include "statistics.hpp"

namespace safespot {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

// v_bar = v_hat + phi is the optimistic reward or constraint (Eq. opt-p). A pair without data, or
// one that is not admissible (D6), has an infinite v_bar: it never falls below its cap.
struct OptimisticModel {
    View<const bool, 2> mask;  // [H, S*A]
    Floats<3> deficit;         // [1+m, H, S*A]: 1 - v_bar
    Floats<2> weight;          // [H, S*A]: 1 / n, of p_hat = count / n
    Floats<2> max_deficit;     // [H, S]: the largest of a state's actions; large problems only

    // The pair after a visit at step h: everywhere, if anything is pooled.
    void visit(const Radii& radii, const Statistics& statistics, Index h, Index pair) const {
        if (!statistics.pooling.any()) {
            refresh(radii, statistics, h, pair);
            return;
        }
        for (Index step = 0; step < statistics.H(); ++step) {
            refresh(radii, statistics, step, pair);
        }
    }

    // All pairs, as when the radii have changed.
    void refresh_all(const Radii& radii, const Statistics& statistics) const {
        for (Index h = 0; h < weight.extent(0); ++h) {
            for (Index pair = 0; pair < weight.extent(1); ++pair) {
                refresh(radii, statistics, h, pair);
            }
        }
    }

private:
    void refresh(const Radii& radii, const Statistics& statistics, Index h, Index pair) const {
        const double n = statistics.visits(h, pair);
        const double phi_p = mask(h, pair) ? transition_bonus(radii, statistics, h, pair) : infinity;
        weight(h, pair) = n > 0.0 ? 1.0 / n : 0.0;
        for (Index c = 0; c < deficit.extent(0); ++c) {
            const double visits = statistics.visits_of(c, h, pair);
            // Eq. opt-p: phi = c (sqrt(L_r / n) + phi_p), with the constants of D3.
            const double phi =
                visits > 0.0 && phi_p < infinity ? radii.bonus_scale * (radii.signal(visits) + phi_p) : infinity;
            const double mean = visits > 0.0 ? statistics.sum_of(c, h, pair) / visits : 0.0;
            deficit(c, h, pair) = 1.0 - (mean + phi);
        }
        if (!statistics.successors.is_dense()) {
            const Index A = statistics.A(), s = pair / A;
            double highest = -infinity;
            for (Index c = 0; c < deficit.extent(0); ++c) {
                for (Index other = s * A; other < (s + 1) * A; ++other) {
                    highest = std::max(highest, deficit(c, h, other));
                }
            }
            max_deficit(h, s) = highest;
        }
    }

    // Infinite where there is too little data, so that the pair sits at its cap (D8).
    static double transition_bonus(const Radii& radii, const Statistics& statistics, Index h, Index pair) {
        const double n = statistics.visits(h, pair);
        if (n == 0.0 || (radii.bernstein && n == 1.0)) return infinity;
        if (!radii.bernstein) return radii.transition(n);
        const Successors& successors = statistics.successors;
        const Index k = statistics.row(h);
        double sum = 0.0;
        if (successors.is_dense()) {
            for (Index after = 0; after < successors.dense.extent(1); ++after) {
                sum += radii.successor(n, successors.dense(k, after, pair));
            }
        } else {
            const Index A = statistics.A(), s = pair / A, a = pair % A;
            const Index first = successors.where(k, s), end = first + successors.length(k, s);
            for (Index j = first; j < end; ++j) {
                if (successors.actions[j] == a) sum += radii.successor(n, successors.counts[j]);
            }
        }
        return std::min(radii.transition(n), radii.H * sum);
    }
};

}  // namespace safespot
