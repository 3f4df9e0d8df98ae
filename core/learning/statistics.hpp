// What a learner counts of the episodes that it has seen.
//
// For every step h and pair s*A + a: the visits n, the sums of the observed rewards and
// constraints, and the successors. They give the empirical model of Eq. empirical-p:
//
//     r_hat = sum r / n,   g_hat = sum g / n,   p_hat = count(s' | s, a) / n.
//
// What is the same at every step may be counted for all steps together (`Pooling`).
#pragma once

#include <algorithm>
#include <cmath>

#include "episode.hpp"
#include "views.hpp"

namespace safespot {

// Which parts of the model are the same at every step; their counts and sums stand at step 0.
struct Pooling {
    View<const bool, 1> flags;  // [2+m]: transitions, the reward, the constraints; empty: none
    View<Int, 1> n;             // [S*A]: visits at all steps together; empty where nothing is pooled

    bool any() const { return !n.empty(); }
    bool transitions() const { return any() && flags[0]; }
    bool component(Index c) const { return any() && flags[1 + c]; }  // 0: the reward
};

// How often each successor followed: a dense block, or for each state a list in a growing pool.
//
// A state's list holds the transitions of all its actions, in the order in which they were first
// seen. K is 1 where transitions are pooled, else H.
struct Successors {
    Floats<3> dense;                // [K, S, S*A], or empty
    View<Int, 2> where;             // [K, S]: where a state's list begins in the pool
    View<Int, 2> length;            // [K, S]
    View<Int, 2> room;              // [K, S]
    View<std::int32_t, 1> actions;  // [pool]
    View<std::int32_t, 1> states;   // [pool]: the successors
    Floats<1> counts;               // [pool]
    View<Int, 1> used;              // [1]: how much of the pool is taken

    static constexpr Int first_room = 4;  // transitions; doubled when they do not suffice

    bool is_dense() const { return !dense.empty(); }

    void add(Index k, Index s, Index action, Index after, Index A) const {
        if (is_dense()) {
            dense(k, after, s * A + action) += 1.0;
            return;
        }
        const Index first = where(k, s), end = first + length(k, s);
        for (Index j = first; j < end; ++j) {
            if (states[j] == after && actions[j] == action) {
                counts[j] += 1.0;
                return;
            }
        }
        if (length(k, s) == A * where.extent(1)) return;  // no list has more
        const Index place = length(k, s) == room(k, s) ? move_to_end(k, s, A) : end;
        actions[place] = static_cast<std::int32_t>(action);
        states[place] = static_cast<std::int32_t>(after);
        counts[place] = 1.0;
        length(k, s) += 1;
    }

private:
    // Twice the room at the pool's end; returns the place behind the last entry.
    Index move_to_end(Index k, Index s, Index A) const {
        const Index begin = where(k, s), first = used[0];
        const Int most = A * where.extent(1);
        for (Index j = 0; j < length(k, s); ++j) {
            actions[first + j] = actions[begin + j];
            states[first + j] = states[begin + j];
            counts[first + j] = counts[begin + j];
        }
        where(k, s) = first;
        room(k, s) = std::min(std::max(2 * room(k, s), first_room), most);
        used[0] += room(k, s);
        return first + length(k, s);
    }
};

struct Statistics {
    View<Int, 2> n;         // [H, S*A]
    Floats<3> sums;         // [1+m, H, S*A]: of rewards, then of constraints
    View<Int, 1> starts;    // [S]: how often an episode began in each state
    View<Int, 2> met;       // [K, S]: the states met at each step, ascending
    View<Int, 1> how_many;  // [K]: how many of them there are
    View<bool, 2> known;    // [K, S]
    Successors successors;
    Pooling pooling;

    Index H() const { return n.extent(0); }
    Index S() const { return starts.extent(0); }
    Index A() const { return n.extent(1) / S(); }
    Index components() const { return sums.extent(0); }

    // The row of step h in what is counted of transitions.
    Index row(Index h) const { return pooling.transitions() ? 0 : h; }
    double visits(Index h, Index pair) const {
        return static_cast<double>(pooling.transitions() ? pooling.n[pair] : n(h, pair));
    }
    double visits_of(Index c, Index h, Index pair) const {
        return static_cast<double>(pooling.component(c) ? pooling.n[pair] : n(h, pair));
    }
    double& sum_of(Index c, Index h, Index pair) const { return sums(c, pooling.component(c) ? 0 : h, pair); }

    // Whether one more episode fits, whatever happens in it: at worst every step moves a full list
    // to twice its room, and none needs more than S*A.
    bool has_room() const {
        return successors.is_dense() || successors.used[0] + n.size() <= successors.states.extent(0);
    }

    // Line 9 of Algorithm 2, one step of it.
    void add(const Episode& episode, Index h) const {
        const Index s = episode.states[h], pair = episode.pairs[h], after = episode.states[h + 1];
        meet(row(h), s);
        n(h, pair) += 1;
        if (pooling.any()) pooling.n[pair] += 1;
        sum_of(0, h, pair) += episode.rewards[h];
        for (Index i = 0; i + 1 < components(); ++i) {
            sum_of(1 + i, h, pair) += episode.constraints(h, i);
        }
        successors.add(row(h), s, pair - s * A(), after, A());
    }

    // Line 9: all steps; of an unfinished episode those before its first missing reward.
    Index add(const Episode& episode) const {
        starts[episode.states[0]] += 1;
        Index h = 0;
        for (; h < episode.H() && !std::isnan(episode.rewards[h]); ++h) add(episode, h);
        return h;
    }

    // Whether every place that these arrays name exists: Python may have written to them.
    bool consistent() const {
        const Index S = this->S(), pairs = n.extent(1);
        for (Index k = 0; k < known.extent(0); ++k) {
            const View<bool, 1> row = known[k];
            if (how_many[k] != std::count(row.data(), row.data() + S, true)) return false;
            const Int* first = met[k].data();
            if (!std::all_of(first, first + how_many[k], [&](Int s) { return 0 <= s && s < S; })) {
                return false;
            }
        }
        const Successors& lists = successors;
        if (lists.is_dense()) return true;
        const Int used = lists.used[0];
        bool inside = 0 <= used && used <= lists.states.extent(0);
        for (Index k = 0; k < lists.where.extent(0) && inside; ++k) {
            for (Index s = 0; s < S && inside; ++s) {
                const Int where = lists.where(k, s), length = lists.length(k, s);
                const Int room = lists.room(k, s);
                inside = 0 <= length && length <= room && room <= pairs && 0 <= where && where <= used - room;
                for (Int j = where; j < where + length && inside; ++j) {
                    inside =
                        0 <= lists.states[j] && lists.states[j] < S && 0 <= lists.actions[j] && lists.actions[j] < A();
                }
            }
        }
        return inside;
    }

private:
    void meet(Index k, Index s) const {
        if (known(k, s)) return;
        known(k, s) = true;
        Index place = how_many[k];
        for (; place > 0 && met(k, place - 1) > s; --place) met(k, place) = met(k, place - 1);
        met(k, place) = s;
        how_many[k] += 1;
    }
};

}  // namespace safespot
