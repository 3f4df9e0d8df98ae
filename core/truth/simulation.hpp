// An episode of a policy in the true model, from random numbers that were drawn before.
#pragma once

#include <cmath>

#include "transitions.hpp"

namespace safespot {

// How a signal with a mean is observed: every law has values in [0,1] and exactly that mean.
struct Law {
    enum Code : Int { bernoulli, beta, gaussian, deterministic };
    Int code;
    double parameter;  // the concentration of a beta, the deviation of a Gaussian

    double signal(double mean, double z) const;
};

// The x in [0,1] with I_x(a, b) = u: the quantile of a beta distribution.
double beta_quantile(double a, double b, double u);

// The observation with this mean that the random number z of the law stands for.
inline double Law::signal(double mean, double z) const {
    if (code == bernoulli) return z < mean ? 1.0 : 0.0;
    if (code == gaussian) {  // clipped symmetrically, so that the mean stays
        const double room = std::min(mean, 1.0 - mean);
        return mean + std::min(std::max(parameter * z, -room), room);
    }
    const double a = parameter * mean, b = parameter * (1.0 - mean);
    // Else the mean is an end of [0,1], or next to it.
    if (code == beta && std::min(a, b) > 0.0) return beta_quantile(a, b, z);
    return mean;
}

struct Laws {
    Law rewards, constraints, thresholds;
    ConstFloats<3> outcomes;  // [m, S*A, S]: means of constraints given the next state; or empty
};

// The random numbers of n episodes.
struct Noise {
    ConstFloats<1> start;                    // [n]
    ConstFloats<2> actions, transitions;     // [n, H]
    ConstFloats<2> rewards;                  // [n, H]
    ConstFloats<3> constraints, thresholds;  // [n, H, m]
};

// Buffers for one episode, in inside units.
struct Played {
    View<Int, 1> states;    // [H+1]
    View<Int, 1> pairs;     // [H]: s*A + a
    Floats<1> rewards;      // [H]
    Floats<2> constraints;  // [H, m]
    Floats<2> thresholds;   // [H, m]
};

// The signals of the pair at step h, and the state after it.
inline Index play_step(const Model& model, const Laws& laws, ConstFloats<2> alpha, const Noise& noise, Index n, Index h,
                       Index pair, const Played& played) {
    const Index k = model.payoffs.extent(1) > 1 ? h : 0;
    const Index after = model.P.successor(h, pair, noise.transitions(n, h));
    played.rewards[h] = laws.rewards.signal(model.payoffs(0, k, pair), noise.rewards(n, h));
    for (Index i = 0; i < alpha.extent(0); ++i) {
        const double mean = laws.outcomes.empty() ? model.payoffs(1 + i, k, pair) : laws.outcomes(i, pair, after);
        played.constraints(h, i) = laws.constraints.signal(mean, noise.constraints(n, h, i));
        played.thresholds(h, i) = laws.thresholds.signal(alpha(i, h), noise.thresholds(n, h, i));
    }
    return after;
}

// Episode n of `noise` under the policy `pi` [H*S*A], with thresholds `alpha` [m, H].
inline void play(const Model& model, const Laws& laws, ConstFloats<2> alpha, const Noise& noise, Index n,
                 ConstFloats<1> pi, const Played& played) {
    const Index S = model.S(), A = model.A();
    Index s = pick(model.start, noise.start[n]);
    for (Index h = 0; h < model.H(); ++h) {
        const Index first = (h * S + s) * A;
        const Index pair = s * A + pick(pi.part(first, first + A), noise.actions(n, h));
        played.states[h] = s;
        played.pairs[h] = pair;
        s = play_step(model, laws, alpha, noise, n, h, pair, played);
    }
    played.states[model.H()] = s;
}

}  // namespace safespot
