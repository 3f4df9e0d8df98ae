// What a learner sees of one episode.
#pragma once

#include "views.hpp"

namespace safespot {

// Signals lie in [0,1]; a step without a threshold sample is NaN there (D7), and so is what never
// came of an unfinished episode.
struct Episode {
    View<const Int, 1> states;   // [H+1]
    View<const Int, 1> pairs;    // [H]: s*A + a
    ConstFloats<1> rewards;      // [H]
    ConstFloats<2> constraints;  // [H, m]
    ConstFloats<2> thresholds;   // [H, m]

    Index H() const { return pairs.extent(0); }
    Index m() const { return constraints.extent(1); }
};

}  // namespace safespot
