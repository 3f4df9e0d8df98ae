// Bounds at all times on the sum of the differences' means, and on the reward.
#pragma once

#include "sequences.hpp"
#include "totals.hpp"

namespace safespot {

struct Meter {
    Declared declared;
    Floats<2> means;   // [2m, ChangingMeans::width]: rows 2i and 2i+1 for the sides of constraint i
    Floats<2> reward;  // [2, WindowSum::width]: of the reward and of 1 less it, which is never rare

    Int counted() const { return static_cast<Int>(ChangingMeans(means[0]).counted()); }

    // An episode of these sums; `x` [2+2m] is a buffer.
    void observe(ConstFloats<1> sums, Floats<1> x) const {
        declared.differences(sums, x);
        for (Index side = 0; side < 2; ++side) {
            const WindowSum sum(reward[side]);
            const double seen = ChangingMeans(means[0]).counted();
            sum.move(x[side], x[side] - (0.5 + sum.total()) / (seen + 1.0));  // guessed: the mean so far
        }
        for (Index r = 0; r < means.extent(0); ++r) ChangingMeans(means[r]).observe(x[2 + r]);
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
