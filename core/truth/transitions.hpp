// True transitions p(s' | h, s, a), dense or as compressed sparse rows.
#pragma once

#include "sums.hpp"
#include "views.hpp"

namespace safespot {

// The first index at which the cumulated probability passes u in [0,1).
//
// Rounding can leave the sum below u: then the last index with positive probability is taken. A
// short row is read to its end, since nobody can guess where it could be left, and a wrong guess
// takes longer.
inline Index pick(ConstFloats<1> probabilities, double u) {
    const Index n = probabilities.extent(0);
    Index passed = 0, last = 0;
    double total = 0.0;
    for (Index k = 0; k < n; ++k) {
        total += probabilities[k];
        last = probabilities[k] > 0.0 ? k : last;
        passed += total <= u ? 1 : 0;
        if (n >= long_row && u < total) break;
    }
    return std::min(passed, last);
}

// K is 1 where no step differs, else H; one of the two kinds is empty.
struct Transitions {
    ConstFloats<3> dense;                    // [K, S*A, S]
    View<const Int, 2> starts;               // [K, S*A + 1]: where each row's entries begin
    View<const std::int32_t, 1> successors;  // [entries]
    ConstFloats<1> probabilities;            // [entries]

    bool is_dense() const { return !dense.empty(); }
    Index block(Index h) const { return dense.extent(0) + starts.extent(0) > 1 ? h : 0; }

    // Whether these are rows of `pairs` pairs, that lead to states.
    bool consistent(Index H, Index pairs, Index S) const {
        const Index K = is_dense() ? dense.extent(0) : starts.extent(0), entries = successors.extent(0);
        if (K != 1 && K != H) return false;
        if (is_dense()) return starts.empty() && dense.extent(1) == pairs && dense.extent(2) == S;
        bool fits = dense.extent(0) == 0 && starts.extent(1) == pairs + 1 && probabilities.extent(0) == entries;
        for (Index k = 0; k < K && fits; ++k) {
            fits = 0 <= starts(k, 0) && starts(k, pairs) <= entries;
            for (Index pair = 0; pair < pairs && fits; ++pair) fits = starts(k, pair) <= starts(k, pair + 1);
        }
        const auto inside = [&](std::int32_t s) { return 0 <= s && s < S; };
        return fits && std::all_of(successors.data(), successors.data() + entries, inside);
    }

    Index successor(Index h, Index pair, double u) const {
        const Index k = block(h);
        if (is_dense()) return pick(dense[k][pair], u);
        const Index first = starts(k, pair), last = starts(k, pair + 1);
        return successors[first + pick(probabilities.part(first, last), u)];
    }

    // From the mass [S*A] of the pairs at step h to that of the states after it; `buffer` [S].
    void move_on(Index h, ConstFloats<1> mass, Floats<1> buffer, Floats<1> states) const {
        const Index k = block(h);
        if (is_dense()) {
            mix_rows(mass, dense[k], 0, states);
            return;
        }
        for (Index s = 0; s < buffer.extent(0); ++s) buffer[s] = 0.0;
        for (Index pair = 0; pair < mass.extent(0); ++pair) {
            const double share = mass[pair];
            if (!(share > 0.0)) continue;
            const Index first = starts(k, pair), last = starts(k, pair + 1);
            const ConstFloats<1> part = probabilities.part(first, last);
            const View<const std::int32_t, 1> after = successors.part(first, last);
            for (Index j = 0; j < last - first; ++j) buffer[after[j]] += share * part[j];
        }
        for (Index s = 0; s < buffer.extent(0); ++s) states[s] = buffer[s];
    }
};

// The CMDP inside: senses >=, everything in [0,1].
struct Model {
    Transitions P;
    ConstFloats<3> payoffs;  // [1+m, K, S*A]: the reward, then the constraints
    ConstFloats<2> alpha;    // [m, H]
    ConstFloats<1> start;    // [S]: a distribution

    Index H() const { return alpha.extent(1); }
    Index S() const { return start.extent(0); }
    Index A() const { return pairs() / S(); }
    Index pairs() const { return payoffs.extent(2); }
    Index components() const { return payoffs.extent(0); }
};

}  // namespace safespot
