// The step of SPOT: Algorithm 2 of the paper, line by line.
//
// Each episode it
//
// - takes the optimistic model and the chosen threshold from the episodes *before* the one being
//   played (line 2),
// - evaluates its policy in it, truncated (lines 3 and 4),
// - moves the policy by mirror ascent and the multipliers by a projected step (lines 5 to 8),
// - and only then adds the episode that was played to its statistics (line 9).
#pragma once

#include <vector>

#include "planning.hpp"
#include "updates.hpp"

namespace safespot {

// What the steps of one epoch compute with.
struct SpotRates {
    Radii radii;
    double eta;    // the step of the policy
    double step;   // the step of the multipliers, 1 / eta_lambda
    double xi;     // the stance
    double rho;    // the bound of the multipliers
    Index start;   // the state, or S: the start distribution is learned (D5)
    bool learned;  // whether the thresholds are learned
};

// What a step changes, beside the statistics and the thresholds.
struct SpotState {
    Floats<1> logits;        // [H*S*A], at most 0; exp of a row sums to at least one half
    Floats<1> pi;            // [H*S*A]: the softmax of the logits
    Floats<1> lambda;        // [m]
    Floats<1> lower, upper;  // [m]: bounds of the thresholds, from the finished episodes
    View<Int, 1> finished;   // [1]: episodes
    Floats<1> gap;           // [1+m]: by how much the values at the start fell short of their caps
    Floats<1> Q;             // [H*S*A]: the priced values of all pairs, where they are evaluated at once
};

// What a step tells the loop.
enum class Answer : int { stayed = 0, moved = 1, due = 2 };

// `Thresholds` learns bounds of the thresholds from an episode: `has_room()` and
// `learn(radii, episode, lower, upper)`, as the paper's `Window` does.
template <class Thresholds>
class Spot {
public:
    Spot(const SpotRates& rates, const SpotState& state, const OptimisticModel& model, const Statistics& statistics,
         const Thresholds& thresholds)
        : rates_(rates), state_(state), model_(model), statistics_(statistics), thresholds_(thresholds) {
        const Index C = statistics.components(), S = statistics.S(), pairs = S * statistics.A();
        const bool dense = statistics.successors.is_dense();
        const Index rows = dense ? state.pi.extent(0) : most_states() * statistics.A();
        memory_.resize(2 * C * S + C * pairs + (dense ? 1 : 2) * rows + 3);
        double* next = memory_.data();
        const auto take = [&](Index entries) { return std::exchange(next, next + entries); };
        G_ = {take(C * S), {C, S}};
        G_now_ = {take(C * S), {C, S}};
        D_ = {take(C * pairs), {C, pairs}};
        Q_ = dense ? state.Q : Floats<1>(take(rows), {rows});
        x_ = {take(rows + 3), {rows + 3}};
    }
    Spot(const Spot&) = delete;  // views look into `memory_`
    Spot& operator=(const Spot&) = delete;
    Spot(Spot&&) = delete;
    Spot& operator=(Spot&&) = delete;
    ~Spot() = default;

    const SpotState& state() const { return state_; }
    const Statistics& statistics() const { return statistics_; }
    void set_rates(const SpotRates& rates) { rates_ = rates; }

    // Whether one more episode fits, whatever happens in it; if not, grow first.
    bool has_room() const { return statistics_.has_room() && thresholds_.has_room(); }

    // Algorithm 2 for one episode t: from pi_t and the data before t to pi_{t+1}, then the data of t.
    Answer observe(const Episode& episode) {
        // Line 2: the optimistic model is `model_`; the stance chooses the thresholds, as they stand.
        // Lines 3 to 6: truncated policy evaluation of pi_t, and mirror ascent to pi_{t+1}.
        const bool moved = statistics_.successors.is_dense() ? sweep_steps() : sweep_states();
        // Lines 7 and 8: the dual step, with V_g at the start.
        const Int t = state_.finished[0];
        const double phi_0 = start_bonus(t);
        for (Index c = 0; c < state_.gap.extent(0); ++c) {
            state_.gap[c] = start_gap(G_[c], rates_.start, statistics_.starts, t, phi_0);
        }
        for (Index i = 0; i < state_.lambda.extent(0); ++i) {
            const double alpha = rates_.xi * state_.lower[i] + (1.0 - rates_.xi) * state_.upper[i];
            const double value = static_cast<double>(statistics_.H()) - state_.gap[1 + i];
            state_.lambda[i] = dual_step(state_.lambda[i], alpha, value, rates_.step, rates_.rho);
        }
        // Line 9: the episode that was played under pi_t joins the data.
        const Index steps = statistics_.add(episode);
        for (Index h = 0; h < steps; ++h) {
            model_.visit(rates_.radii, statistics_, h, episode.pairs[h]);
        }
        state_.finished[0] += 1;
        if (rates_.learned) thresholds_.learn(rates_.radii, episode, state_.lower, state_.upper);
        return moved ? Answer::moved : Answer::stayed;
    }

    // All that follows from logits, radii and counts, as when an epoch begins.
    void derive() {
        const Index entries = state_.pi.extent(0);
        for (Index first = 0; first < entries; first += Q_.extent(0)) {
            const Index last = std::min(first + Q_.extent(0), entries);
            softmax(state_.logits.part(first, last), state_.pi.part(first, last), statistics_.A(), x_);
        }
        model_.refresh_all(rates_.radii, statistics_);
        if (rates_.learned) thresholds_.bounds(rates_.radii, state_.lower, state_.upper);
    }

    // The whole of Algorithm TPE: Q_v [1+m, H, S*A], and V_v at the first step [1+m, S].
    void evaluate(ConstFloats<2> pi, ConstFloats<1> lambda, Floats<3> Q, Floats<2> V) {
        const Index H = statistics_.H(), S = statistics_.S();
        std::vector<double> memory(G_.size() + Q.extent(2));
        const Floats<2> G(memory.data(), {G_.extent(0), S});
        const Floats<1> priced(memory.data() + G_.size(), {Q.extent(2)});
        for (Index h = H - 1; h >= 0; --h) {
            const auto remaining = static_cast<double>(H - h);
            evaluate_states(statistics_, model_, pi[h], lambda, h, 0, S, G, D_, priced, G);
            for (Index c = 0; c < G.extent(0); ++c) {
                for (Index pair = 0; pair < Q.extent(2); ++pair) {
                    Q(c, h, pair) = remaining - D_(c, pair);
                }
            }
        }
        for (Index c = 0; c < G.extent(0); ++c) {
            for (Index s = 0; s < S; ++s) V(c, s) = static_cast<double>(H) - G(c, s);
        }
    }

private:
    // States of a large problem that are worked on at once: about 512 pairs.
    Index most_states() const { return std::max<Index>(1, 512 / statistics_.A()); }

    // D5: phi_0 = c H sqrt((S + L_p) / t), where the start distribution is learned.
    double start_bonus(Int t) const {
        if (rates_.start < statistics_.S()) return 0.0;
        const Radii& radii = rates_.radii;
        return radii.bonus_scale * radii.transition(std::max(1.0, static_cast<double>(t)));
    }

    // Lines 3 to 6 for a small problem, all states of a step at once; returns whether the policy
    // has moved.
    //
    // At the first step only a known start can be met; elsewhere Q stays at 0 there. Mirror ascent
    // runs over all steps from the first to the last at which some Q is below 0: elsewhere the same
    // logits give the same policy.
    bool sweep_steps() {
        const Index H = statistics_.H(), S = statistics_.S(), A = statistics_.A();
        Index first = H, last = 0;
        for (Index h = H - 1; h >= 0; --h) {
            const bool one = h == 0 && rates_.start < S;
            const Index begin = one ? rates_.start : 0, end = one ? begin + 1 : S;
            const Floats<1> Q = Q_.part((h * S + begin) * A, (h * S + end) * A);
            if (evaluate_states(statistics_, model_, state_.pi.part(h * S * A, (h + 1) * S * A), state_.lambda, h,
                                begin, end, G_, D_, Q, G_)) {
                first = h;
                last = std::max(last, h + 1);
            }
        }
        if (first < last) move(first * S * A, last * S * A, Q_.part(first * S * A, last * S * A));
        return first < last;
    }

    // Lines 3 to 6 for a large problem, a few neighboring states at once, so that they stay in the
    // cache; returns whether the policy has moved.
    //
    // Only states that were met at a step can be below their cap, and of these only the ones whose
    // largest deficit and the largest gap ahead allow it.
    bool sweep_states() {
        const Index H = statistics_.H();
        bool moved = false, gaps_ahead = false;  // whether any state of step h + 1 was evaluated
        double ahead = 0.0;
        clear(G_, 0);  // left from the last episode
        for (Index h = H - 1; h >= 0; --h) {
            const View<const Int, 1> met = met_at(h);
            const ConstFloats<1> deficit = model_.max_deficit[h];
            bool gaps = false;
            for (Index j = 0; j < met.extent(0);) {
                const Index first = met[j];
                Index last = first;
                while (j < met.extent(0) && met[j] == last && last - first < most_states() &&
                       deficit[last] + ahead > 0.0) {
                    ++last;
                    ++j;
                }
                if (first == last) {
                    ++j;
                } else {
                    moved = move_states(h, first, last) || moved;
                    gaps = true;
                }
            }
            if (gaps_ahead) clear(G_, h + 1);
            ahead = gaps ? hand_over(h) : 0.0;
            gaps_ahead = gaps;
        }
        return moved;
    }

    bool move_states(Index h, Index first, Index last) {
        const Index S = statistics_.S(), A = statistics_.A();
        const Floats<1> Q = Q_.part(0, (last - first) * A);
        const bool below = evaluate_states(statistics_, model_, state_.pi.part(h * S * A, (h + 1) * S * A),
                                           state_.lambda, h, first, last, G_, D_, Q, G_now_);
        if (below) move((h * S + first) * A, (h * S + last) * A, Q);
        return below;
    }

    void move(Index first, Index last, ConstFloats<1> Q) {
        mirror_ascent(state_.logits.part(first, last), state_.pi.part(first, last), Q, rates_.eta, statistics_.A(), x_);
    }

    View<const Int, 1> met_at(Index h) const {
        const Index k = statistics_.row(h);
        return statistics_.met[k].part(0, statistics_.how_many[k]);
    }

    // Set the gaps of the states that were met at a step to zero.
    void clear(Floats<2> G, Index h) const {
        const View<const Int, 1> met = met_at(h);
        for (Index c = 0; c < G.extent(0); ++c) {
            const Floats<1> row = G[c];
            for (Index j = 0; j < met.extent(0); ++j) row[met[j]] = 0.0;
        }
    }

    // Move the gaps of step h from `G_now_` to `G_`, leave zeros, and return the largest.
    double hand_over(Index h) {
        const View<const Int, 1> met = met_at(h);
        double top = 0.0;
        for (Index c = 0; c < G_.extent(0); ++c) {
            const Floats<1> now = G_now_[c], row = G_[c];
            for (Index j = 0; j < met.extent(0); ++j) {
                const double gap = std::exchange(now[met[j]], 0.0);
                row[met[j]] = gap;
                top = std::max(top, gap);
            }
        }
        return top;
    }

    SpotRates rates_;
    SpotState state_;
    OptimisticModel model_;
    Statistics statistics_;
    Thresholds thresholds_;
    std::vector<double> memory_;  // of the buffers below; they carry nothing over but zeros
    Floats<2> G_, G_now_;         // [1+m, S]; the latter zero between steps
    Floats<2> D_;                 // [1+m, S*A]
    Floats<1> Q_;  // [rows]: all pairs of all steps, or those worked on at once; dense: zero where nothing can be met
    Floats<1> x_;  // [rows + 3]
};

}  // namespace safespot
