// The growing window: the threshold samples of the last W = max(1, floor(gamma * finished))
// episodes, and the bounds that Theorem 1 gives.
//
// It adds the newest episode and takes back those that fall out. Per step it knows the pair with
// the most samples, which represents the step (below Eq. empirical-gw): through a winner tree, or,
// where nothing is ever taken back, by comparing with the last winner.
#pragma once

#include <algorithm>
#include <cmath>

#include "episode.hpp"
#include "radii.hpp"
#include "views.hpp"

namespace safespot {

struct Window {
    double gamma = 1.0;
    View<Int, 2> n;               // [H, pairs]; one common pair when pooled
    Floats<3> sums;               // [m, H, pairs]
    Floats<3> carries;            // [m, H, pairs]: what rounding cut off of `sums`
    View<std::int32_t, 2> tree;   // [H, 2 * leaves]: the winner of each node; gamma = 1: one
    View<std::int32_t, 2> pairs;  // [capacity, H]: the history, a ring; empty when gamma = 1
    Floats<3> samples;            // [capacity, H, m]
    View<Int, 1> span;            // [3]: finished episodes, the length, where the oldest is

    Index H() const { return n.extent(0); }
    Index m() const { return sums.extent(0); }
    Index capacity() const { return pairs.extent(0); }

    // The newest episode joins before the oldest leaves.
    bool has_room() const { return capacity() == 0 || span[1] < capacity(); }

    // The samples of an episode join, and the bounds [m] of the thresholds follow.
    void learn(const Radii& radii, const Episode& episode, Floats<1> lower, Floats<1> upper) const {
        add(episode);
        bounds(radii, lower, upper);
    }

    void add(const Episode& episode) const {
        span[0] += 1;
        span[1] += 1;
        const Index newest = (span[2] + span[1] - 1) % std::max<Index>(1, capacity());
        for (Index h = 0; h < H(); ++h) {
            const Index pair = n.extent(1) == 1 ? 0 : episode.pairs[h];
            count(h, pair, episode.thresholds[h], 1);
            if (capacity() > 0) {
                pairs(newest, h) = static_cast<std::int32_t>(pair);
                for (Index i = 0; i < m(); ++i) samples(newest, h, i) = episode.thresholds(h, i);
            }
        }
        if (capacity() == 0) return;
        const double part = std::floor(gamma * static_cast<double>(span[0]));
        const Int longest = std::max<Int>(1, static_cast<Int>(part));
        while (span[1] > longest) {
            const Index oldest = span[2];
            for (Index h = 0; h < H(); ++h) count(h, pairs(oldest, h), samples[oldest][h], -1);
            span[2] = (oldest + 1) % capacity();
            span[1] -= 1;
        }
    }

    // Eq. opt-a: alpha_hat -/+ zeta at the representative pair, summed over the steps.
    //
    // Clipped to [0,1] per step (D2); a step without a sample contributes [0,1].
    void bounds(const Radii& radii, Floats<1> lower, Floats<1> upper) const {
        for (Index i = 0; i < m(); ++i) lower[i] = upper[i] = 0.0;
        for (Index h = 0; h < H(); ++h) {
            const Index pair = representative(h);
            const auto samples_seen = static_cast<double>(n(h, pair));
            for (Index i = 0; i < m(); ++i) {
                double low = 0.0, high = 1.0;
                if (samples_seen > 0.0) {
                    const double alpha_hat = (sums(i, h, pair) + carries(i, h, pair)) / samples_seen;
                    const double zeta = radii.threshold(samples_seen);
                    low = alpha_hat - zeta;
                    high = alpha_hat + zeta;
                    if (radii.clip) {
                        low = std::min(std::max(low, 0.0), 1.0);
                        high = std::min(std::max(high, 0.0), 1.0);
                    }
                }
                lower[i] += low;
                upper[i] += high;
            }
        }
    }

    // The pair with the most samples at step h, the lowest on ties.
    Index representative(Index h) const { return tree(h, 1); }

    // All winners from the counts alone.
    void rebuild_tree() const {
        const Index leaves = tree.extent(1) / 2;
        for (Index h = 0; h < H(); ++h) {
            if (leaves == 1) {
                tree(h, 1) = 0;
                for (Index pair = 0; pair < n.extent(1); ++pair) replay(tree[h], n[h], pair);
                continue;
            }
            for (Index leaf = 0; leaf < leaves; ++leaf) {
                tree(h, leaves + leaf) = static_cast<std::int32_t>(leaf);
            }
            for (Index node = leaves - 1; node > 0; --node) match(tree[h], n[h], node);
        }
    }

    // Whether every place that these arrays name exists: Python may have written to them.
    bool consistent() const {
        const Int length = span[1], oldest = span[2];
        const auto inside = [&](std::int32_t pair) { return is_pair(n[0], pair); };
        bool fits = 0 <= span[0] && span[0] < most && 0 <= length && 0 <= oldest;
        if (capacity() > 0) fits &= length <= capacity() && oldest < capacity();
        if (capacity() == 0) fits &= length <= span[0] && oldest == 0;
        for (Index h = 0; h < H(); ++h) fits &= inside(tree(h, 1));
        return fits && std::all_of(pairs.data(), pairs.data() + pairs.size(), inside);
    }

private:
    static constexpr Int most = Int{1} << 53;  // episodes: counts are exact as doubles, too

    static bool is_pair(View<const Int, 1> n, std::int32_t pair) { return 0 <= pair && pair < n.extent(0); }

    // Add a sample of step h, or take it back; NaN is none (D7).
    void count(Index h, Index pair, ConstFloats<1> sample, int sign) const {
        if (std::isnan(sample[0])) return;
        n(h, pair) += sign;
        for (Index i = 0; i < m(); ++i) {
            double &sum = sums(i, h, pair), &carry = carries(i, h, pair);
            if (n(h, pair) == 0) {
                sum = carry = 0.0;
                continue;
            }
            // Knuth's two-sum: `carries` collects what rounding cuts off.
            const double x = sign * sample[i], rounded = sum + x, part = rounded - sum;
            carry += (sum - (rounded - part)) + (x - part);
            sum = rounded;
        }
        replay(tree[h], n[h], pair);
    }

    // The winners again when `pair` was counted: the larger count, the lower pair on ties.
    static void replay(View<std::int32_t, 1> tree, View<const Int, 1> n, Index pair) {
        if (tree.extent(0) == 2) {  // counts only grow, or there is one pair
            const Index winner = tree[1];
            const bool ahead = n[pair] > n[winner] || (n[pair] == n[winner] && pair < winner);
            if (ahead) tree[1] = static_cast<std::int32_t>(pair);
            return;
        }
        for (Index node = (tree.extent(0) / 2 + pair) / 2; node >= 1; node /= 2) {
            match(tree, n, node);
        }
    }

    // Leaves beyond the last pair never win against one.
    static void match(View<std::int32_t, 1> tree, View<const Int, 1> n, Index node) {
        const std::int32_t left = tree[2 * node], right = tree[2 * node + 1];
        const bool wins = is_pair(n, right) && is_pair(n, left) && n[right] > n[left];
        tree[node] = wins ? right : left;
    }
};

}  // namespace safespot
