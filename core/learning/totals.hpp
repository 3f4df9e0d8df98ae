// Totals of an episode: all that evidence knows of it, and what they state.
//
// Inside, D = sum_h (g_h - x_h) has, given the past, the mean V_g - alpha, whatever the world is and
// whoever chose the policy. An episode is a row [2+4m] of sums:
//
//     0, 1               the reward
//     2.., 2+m..         the constraints
//     2+2m.., 2+3m..     the threshold samples
//
// each at its least and at its largest: a signal that is missing counts as 0 in the first and as 1 in
// the second.
#pragma once

#include <algorithm>
#include <cmath>

#include "episode.hpp"

namespace safespot {

struct Ends {
    double low, high;
};

inline void add_up(const Episode& e, Floats<1> sums) {
    const Index m = e.m();
    std::fill_n(sums.data(), sums.extent(0), 0.0);
    const auto add = [&](double signal, Index low, Index high) {
        const bool missing = std::isnan(signal);
        sums[low] += missing ? 0.0 : signal;
        sums[high] += missing ? 1.0 : signal;
    };
    for (Index h = 0; h < e.H(); ++h) {
        add(e.rewards[h], 0, 1);
        for (Index i = 0; i < m; ++i) {
            add(e.constraints(h, i), 2 + i, 2 + m + i);
            add(e.thresholds(h, i), 2 + 2 * m + i, 2 + 3 * m + i);
        }
    }
}

inline double within(double x) { return std::min(std::max(x, 0.0), 1.0); }

// Declared ranges of an episode's totals, inside; the reward's begins at 0.
struct Declared {
    ConstFloats<1> alpha;     // [m]: the thresholds where they are known, else empty
    ConstFloats<2> values;    // [2, m]: least and largest total of the constraints
    ConstFloats<2> limits;    // [2, m]: the same of the threshold samples
    ConstFloats<1> rounding;  // [m]: by how much a total may miss them
    ConstFloats<1> least;     // [m]: the least that D can be
    ConstFloats<1> width;     // [m]: between the least and the largest D
    ConstFloats<1> scale;     // [1+m]: 1 / the reward's width, then 1 / width

    Index m() const { return least.extent(0); }
    bool known() const { return !alpha.empty(); }

    // Whether sums lie where they were declared to.
    bool fits(ConstFloats<1> sums) const {
        bool fit = true;
        for (Index i = 0; i < m(); ++i) {
            const double spare = rounding[i];
            fit &= sums[2 + m() + i] >= values(0, i) - spare && sums[2 + i] <= values(1, i) + spare;
            fit &= known() ||
                   (sums[2 + 3 * m() + i] >= limits(0, i) - spare && sums[2 + 2 * m() + i] <= limits(1, i) + spare);
        }
        return fit;
    }

    // The threshold total that an episode's samples leave open.
    Ends hinted(ConstFloats<1> sums, Index i) const {
        if (known()) return {alpha[i], alpha[i]};
        return {std::max(sums[2 + 2 * m() + i], limits(0, i)), std::min(sums[2 + 3 * m() + i], limits(1, i))};
    }

    // The least of sum_h (g_h - w x_h), the width of its range, and 1 / width; of D for w = 1.
    struct Range {
        double least, width, scale;
    };
    Range range(double w, Index i) const {
        if (w == 1.0) return {least[i], width[i], scale[1 + i]};
        const double wide = values(1, i) - values(0, i) + w * (limits(1, i) - limits(0, i));
        return {values(0, i) - w * limits(1, i), wide, 1.0 / wide};
    }

    // What an episode states, in [0,1]: two numbers for each quantity, its least and 1 less its
    // largest, small where the evidence for a lower bound is weak.
    //
    //     0, 1            the reward
    //     2+2i, 3+2i      the difference of constraint i, its samples weighted by weight(i): 1 for D
    //     2+2m+2i, ...    its value
    //     2+4m+2i, ...    its threshold
    //
    // `x` has room for the first so many.
    template <class Weight>
    void state(const Weight& weight, ConstFloats<1> sums, Floats<1> x) const {
        x[0] = within(sums[0] * scale[0]);
        x[1] = within(1.0 - sums[1] * scale[0]);
        const Index rows = x.extent(0);
        for (Index i = 0; i < m(); ++i) {
            const Ends value{sums[2 + i], sums[2 + m() + i]}, hint = hinted(sums, i);
            const double w = weight(i);
            const Range range = this->range(w, i);
            x[2 + 2 * i] = within((value.low - w * hint.high - range.least) * range.scale);
            x[3 + 2 * i] = within(1.0 - (value.high - w * hint.low - range.least) * range.scale);
            const auto share = [&](Index row, Ends ends, double low, double wide) {
                x[row] = within((ends.low - low) / wide);
                x[row + 1] = within(1.0 - (ends.high - low) / wide);
            };
            if (rows > 2 + 2 * m()) share(2 + 2 * m() + 2 * i, value, values(0, i), values(1, i) - values(0, i));
            if (rows > 2 + 4 * m()) share(2 + 4 * m() + 2 * i, hint, limits(0, i), limits(1, i) - limits(0, i));
        }
    }
    void differences(ConstFloats<1> sums, Floats<1> x) const {
        state([](Index) { return 1.0; }, sums, x);
    }

    // The bounds of V_g - alpha of constraint i from those of its two rows.
    Ends interval(double lower, double upper, Index i) const {
        return {least[i] + width[i] * lower, least[i] + width[i] * (1.0 - upper)};
    }
};

}  // namespace safespot
