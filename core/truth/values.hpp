// Exact values of a policy in the true model.
#pragma once

#include "transitions.hpp"

namespace safespot {

// Buffers that `forward_values` works in.
struct Occupancy {
    Floats<1> now, after;    // [S]
    Floats<1> mass, visits;  // [S*A]
};

// Values [1+m] of the policy `pi` [H*S*A] by its occupancy measure, forward: one pass over the
// transitions serves every component.
//
// Where payoffs are the same at every step, it is the expected visits of all steps together that
// they are multiplied with.
inline void forward_values(const Model& model, ConstFloats<1> pi, const Occupancy& w, Floats<1> values) {
    const Index H = model.H(), pairs = model.pairs(), S = model.S(), A = model.A();
    const bool alike = model.payoffs.extent(1) == 1;
    for (Index s = 0; s < S; ++s) w.now[s] = model.start[s];
    for (Index c = 0; c < values.extent(0); ++c) values[c] = 0.0;
    for (Index k = 0; k < pairs; ++k) w.visits[k] = 0.0;
    for (Index h = 0; h < H; ++h) {
        const ConstFloats<1> policy = pi.part(h * pairs, (h + 1) * pairs);
        with_width(A, [&](auto width) {
            for (Index s = 0; s < S; ++s) {
                const double share = w.now[s];
                for (Index a = 0; a < width; ++a) w.mass[s * width + a] = policy[s * width + a] * share;
            }
        });
#pragma GCC ivdep
        for (Index k = 0; k < pairs; ++k) w.visits[k] += w.mass[k];
        for (Index c = 0; c < values.extent(0) && !alike; ++c) {
            values[c] += dot(w.mass, model.payoffs[c][h]);
        }
        if (h + 1 < H) model.P.move_on(h, w.mass, w.after, w.now);
    }
    for (Index c = 0; c < values.extent(0) && alike; ++c) {
        values[c] = dot(w.visits, model.payoffs[c][0]);
    }
}

}  // namespace safespot
