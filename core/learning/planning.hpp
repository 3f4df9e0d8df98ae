// Truncated policy evaluation (Algorithm TPE), one step of the episode at a time.
//
//     Q_v,h(s,a) = min( v_bar + p_hat V_v,h+1, remaining ),   V_v,h(s) = sum_a pi(a|s) Q_v,h(s,a),
//     Q = Q_r + sum_i lambda_i Q_{g_i},   remaining = H - h (0-based h).
//
// It carries the *gap* to the cap, D = remaining - Q >= 0, in place of Q itself:
//
//     D_v,h(s,a) = max( (1 - v_bar) + p_hat G_v,h+1, 0 ),   G_v,h(s) = sum_a pi(a|s) D_v,h(s,a).
//
// It is the same recursion, but what is at its cap has a gap of exactly zero: so has a pair without
// data. A state whose every action has gap zero in every component keeps its policy and adds
// nothing upstream, so that the work is proportional to what has been learned.
#pragma once

#include "optimism.hpp"
#include "statistics.hpp"
#include "sums.hpp"

namespace safespot {

// D[a] = sum of count G(s') over a state's transitions with action a, and E from F likewise: two
// components at once, which is half the reading. With one left, E is D and F is G.
inline void add_up(const Successors& successors, Index k, Index s, ConstFloats<1> G, ConstFloats<1> F, Floats<1> D,
                   Floats<1> E) {
    for (Index a = 0; a < D.extent(0); ++a) D[a] = E[a] = 0.0;
    const Index first = successors.where(k, s), end = first + successors.length(k, s);
    for (Index j = first; j < end; ++j) {
        const Index a = successors.actions[j], after = successors.states[j];
        const double n = successors.counts[j];
        const double d = D[a] + n * G[after], e = E[a] + n * F[after];
        D[a] = d;
        E[a] = e;
    }
}

// D[c, pair] = sum_s' count(s') G_c(s'), n times p_hat G, for the pairs of states from `first` up
// to `last`; D begins with the first pair.
inline void back_up(const Statistics& statistics, Index h, Index first, Index last, ConstFloats<2> G, Floats<2> D) {
    const Successors& successors = statistics.successors;
    const Index A = statistics.A(), k = statistics.row(h), C = G.extent(0);
    if (successors.is_dense()) {
        mix_rows_of_all(G, successors.dense[k], first * A, (last - first) * A, D);
        return;
    }
    for (Index s = first; s < last; ++s) {
        const Index begin = (s - first) * A;
        for (Index c = 0; c < C; c += 2) {
            const Index b = std::min(c + 1, C - 1);
            add_up(successors, k, s, G[c], G[b], D[c].part(begin, begin + A), D[b].part(begin, begin + A));
        }
    }
}

// From n p_hat G in D to the gaps of pairs, which begin with `first`, and their Q:
//
//     D_c = max(deficit_c + p_hat G_c, 0),   Q = -(D_r + sum_i lambda_i D_{g_i}),
//
// which is Q but for what all actions of a step share, remaining * (1 + sum_i lambda_i).
inline void truncate(const OptimisticModel& model, ConstFloats<1> lambda, Index h, Index first, Floats<2> D,
                     Floats<1> Q) {
    const Index C = D.extent(0), length = Q.extent(0), last = first + length;
    const ConstFloats<1> weight = model.weight[h].part(first, last);
    const auto deficit = [&](Index c) { return ConstFloats<1>(model.deficit[c][h].part(first, last)); };
    Index c = 0;
    for (; c + 2 <= C; c += 2) {  // two components at once: half the reading
        const double price = c > 0 ? lambda[c - 1] : 1.0, next_price = lambda[c];
        const ConstFloats<1> x = deficit(c), next_x = deficit(c + 1);
        const Floats<1> row = D[c], next_row = D[c + 1];
        const auto cut = [&](Index k, double before) {
            const double gap = std::max(x[k] + weight[k] * row[k], 0.0);
            const double next_gap = std::max(next_x[k] + weight[k] * next_row[k], 0.0);
            row[k] = gap;
            next_row[k] = next_gap;
            Q[k] = (before - price * gap) - next_price * next_gap;
        };
        if (c == 0) {
#pragma GCC ivdep
            for (Index k = 0; k < length; ++k) cut(k, 0.0);
        } else {
#pragma GCC ivdep
            for (Index k = 0; k < length; ++k) cut(k, Q[k]);
        }
    }
    if (c < C) {
        const double price = lambda[c - 1];
        const ConstFloats<1> x = deficit(c);
        const Floats<1> row = D[c];
#pragma GCC ivdep
        for (Index k = 0; k < length; ++k) {
            row[k] = std::max(x[k] + weight[k] * row[k], 0.0);
            Q[k] -= price * row[k];
        }
    }
}

// Algorithm TPE at step h for states from `first` up to `last`, from the gaps `ahead` of step h + 1:
// their D [1+m, pairs] and Q [pairs], which begin with the first of these states, and
// G_c(s) = sum_a pi(a|s) D_c(s,a) [1+m, S], with the step's policy `pi` [S*A].
//
// G may be `ahead` itself where these are all states that the step needs. Returns whether any Q is
// below 0: where none is, nothing moves.
inline bool evaluate_states(const Statistics& statistics, const OptimisticModel& model, ConstFloats<1> pi,
                            ConstFloats<1> lambda, Index h, Index first, Index last, ConstFloats<2> ahead, Floats<2> D,
                            Floats<1> Q, Floats<2> G) {
    const Index A = statistics.A(), pairs = (last - first) * A;
    if (h + 1 < statistics.H()) {
        back_up(statistics, h, first, last, ahead, D);
    } else {
        for (Index c = 0; c < D.extent(0); ++c) {
            for (Index k = 0; k < pairs; ++k) D(c, k) = 0.0;
        }
    }
    truncate(model, lambda, h, first * A, D, Q.part(0, pairs));
    for (Index c = 0; c < G.extent(0); ++c) {
        sum_products(pi.part(first * A, last * A), D[c], A, G[c].part(first, last));
    }
    return std::any_of(Q.data(), Q.data() + pairs, [](double q) { return q != 0.0; });
}

// H - V_c(start): at the known start, or by the learned distribution where `start` is S (D5),
//
//     V(start) = min( phi_0 + sum_s mu_hat(s) V_1(s), H ),   H before the first episode.
inline double start_gap(ConstFloats<1> G, Index start, View<const Int, 1> starts, Int finished, double phi_0) {
    if (start < G.extent(0)) return G[start];
    if (finished == 0) return 0.0;
    double sum = 0.0;
    for (Index s = 0; s < G.extent(0); ++s) sum += static_cast<double>(starts[s]) * G[s];
    return std::max(sum / static_cast<double>(finished) - phi_0, 0.0);
}

}  // namespace safespot
