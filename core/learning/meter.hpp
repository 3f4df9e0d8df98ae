// What an episode shows of the difference that safety is about, and bounds on what was violated.
//
// Inside, D = sum_h (g_h - x_h) has, given the past, the mean V_g - alpha, whatever the world is and
// whoever chose the policy. A step without a sample may have had any: x = 1 there makes D smallest,
// x = 0 largest. So may a step of an unfinished episode: g = 0 makes D smallest, g = 1 largest.
#pragma once

#include "episode.hpp"
#include "sequences.hpp"

namespace safespot {

// The least and the largest that a total can be.
struct Ends {
    double low, high;
};

// sum_h signals(h), where what is missing is 0, and where it is 1: one number, if nothing is.
template <class Signals>
Ends ends(Index H, const Signals& signals) {
    double total = 0.0;
    for (Index h = 0; h < H; ++h) total += signals(h);
    if (!std::isnan(total)) return {total, total};
    Ends sums{0.0, 0.0};
    for (Index h = 0; h < H; ++h) {
        const bool missing = std::isnan(signals(h));
        sums.low += missing ? 0.0 : signals(h);
        sums.high += missing ? 1.0 : signals(h);
    }
    return sums;
}

// What is declared of an episode's totals, inside.
struct Declared {
    ConstFloats<1> alpha;   // [m]: the thresholds where they are known, else empty
    ConstFloats<2> values;  // [2, m]: least and largest total of g
    ConstFloats<2> limits;  // [2, m]: the same of the threshold's samples
    ConstFloats<1> least;   // [m]: the least that D can be
    ConstFloats<1> scale;   // [1+m]: 1 / H for the reward, then 1 / (largest D - least D)

    bool known() const { return !alpha.empty(); }

    // Whether an episode's totals lie where they were declared to.
    bool fits(const Episode& e) const {
        const double room = 1e-9 * static_cast<double>(e.H());  // rounding
        bool fit = true;
        for (Index i = 0; i < e.m(); ++i) {
            const Ends value = ends(e.H(), [&](Index h) { return e.constraints(h, i); });
            const Ends limit = ends(e.H(), [&](Index h) { return e.thresholds(h, i); });
            fit &= value.high >= values(0, i) - room && value.low <= values(1, i) + room;
            fit &= known() || (limit.high >= limits(0, i) - room && limit.low <= limits(1, i) + room);
        }
        return fit;
    }

    // The least D of constraint i in [0,1], and 1 less the largest: small where evidence is weak.
    Ends difference(const Episode& e, Index i) const {
        const Ends value = ends(e.H(), [&](Index h) { return e.constraints(h, i); });
        const Ends limit = hinted(e, i);
        const double width = scale[1 + i];
        return {std::min(std::max((value.low - limit.high - least[i]) * width, 0.0), 1.0),
                std::min(std::max(1.0 - (value.high - limit.low - least[i]) * width, 0.0), 1.0)};
    }

    // The least and the largest sum of an episode's rewards, scaled to [0,1].
    Ends reward(const Episode& e) const {
        const Ends sum = ends(e.H(), [&](Index h) { return e.rewards[h]; });
        return {std::min(sum.low * scale[0], 1.0), std::min(sum.high * scale[0], 1.0)};
    }

private:
    // The threshold total that an episode's samples leave open.
    Ends hinted(const Episode& e, Index i) const {
        if (known()) return {alpha[i], alpha[i]};
        const Ends sum = ends(e.H(), [&](Index h) { return e.thresholds(h, i); });
        if (sum.low == sum.high) return sum;
        return {std::max(sum.low, limits(0, i)), std::min(sum.high, limits(1, i))};
    }
};

// Bounds at all times on the sum of the differences' means, and on the reward.
struct Meter {
    Declared declared;
    Floats<2> means;   // [2m, ChangingMeans::width]: rows 2i and 2i+1 for the sides of constraint i
    Floats<2> reward;  // [2, WindowSum::width]: of the reward and of 1 less it, which is never rare

    Int counted() const { return static_cast<Int>(ChangingMeans(means[0]).counted()); }

    void observe(const Episode& episode) const {
        const Ends share = declared.reward(episode);
        for (Index side = 0; side < 2; ++side) {
            const double x = side == 0 ? share.low : 1.0 - share.high;
            const WindowSum sum(reward[side]);
            const double seen = ChangingMeans(means[0]).counted();
            sum.move(x, x - (0.5 + sum.total()) / (seen + 1.0));  // guessed: the mean so far
        }
        for (Index i = 0; i < episode.m(); ++i) {
            const Ends x = declared.difference(episode, i);
            ChangingMeans(means[2 * i]).observe(x.low);
            ChangingMeans(means[2 * i + 1]).observe(x.high);
        }
    }

    // Lower bounds [2+2m] of sums: of the reward and of 1 less it, then of the differences.
    void read(ConstFloats<1> levels, Floats<1> lower) const {
        for (Index side = 0; side < 2; ++side) {
            lower[side] = WindowSum(reward[side]).bound(levels[side]);
        }
        for (Index r = 0; r < means.extent(0); ++r) {
            lower[2 + r] = ChangingMeans(means[r]).bound(levels[2 + r]);
        }
    }
};

}  // namespace safespot
