// A budget of violation: upper bounds of what was violated so far, and whether one more episode fits.
//
// With U_i(t) the upper bound of sum_t (alpha - V_g) that the episodes themselves prove, and c_i the
// most that one episode can add,
//
//     U*_i(0) = 0,    U*_i(t) = min( U_i(t),  U*_i(t-1) + c_i,  or + 0 where a safe baseline played ),
//
// and one more episode fits if U*_i(t) + c_i <= B_i for every i (docs/guard.md).
#pragma once

#include "sequences.hpp"
#include "totals.hpp"

namespace safespot {

struct Budget {
    Declared declared;
    Floats<2> means;      // [2m, ChangingMeans::width]: of D, two sides of each constraint
    Floats<1> spent;      // [m]: U*
    ConstFloats<1> most;  // [m]: B; empty: there is none
    double level;         // ln(1/share) of each U

    // An episode that states `x`, whose policy is free or costs.
    void charge(ConstFloats<1> x, bool free) const {
        for (Index r = 0; r < means.extent(0); ++r) ChangingMeans(means[r]).observe(x[2 + r]);
        for (Index i = 0; i < spent.extent(0); ++i) {
            spent[i] = std::min(proven(i), spent[i] + (free ? 0.0 : -declared.least[i]));
        }
    }

    // U_i: the most that the counted episodes have violated, by themselves.
    double proven(Index i) const {
        const ChangingMeans difference(means[2 * i]);
        return -(difference.counted() * declared.least[i] + declared.width[i] * difference.bound(level));
    }

    bool fits() const {
        for (Index i = 0; i < most.extent(0); ++i) {
            if (spent[i] - declared.least[i] > most[i]) return false;
        }
        return true;
    }
};

}  // namespace safespot
