// A learner that plans in Python: its data, its thresholds, and when a plan is due.
#pragma once

#include "spot.hpp"

namespace safespot {

struct CountingState {
    Floats<1> pi;                // [H*S*A]
    Floats<1> lambda;            // [m]
    Floats<1> lower, upper;      // [m]: bounds of the thresholds
    View<Int, 1> finished;       // [1]: episodes
    View<const Int, 2> planned;  // [H, S*A]: visits at the last plan
    View<Int, 1> due;            // [1]: whether a plan is due
};

template <class Thresholds>
class Counting {
public:
    // `replan`: a plan is due when the visits of some pair are so many times those of the last plan;
    // 0: never.
    Counting(const Radii& radii, Int replan, bool learned, const CountingState& state, const Statistics& statistics,
             const Thresholds& thresholds)
        : radii_(radii),
          replan_(replan),
          learned_(learned),
          state_(state),
          statistics_(statistics),
          thresholds_(thresholds) {}

    const CountingState& state() const { return state_; }
    bool has_room() const { return statistics_.has_room() && thresholds_.has_room(); }

    Answer observe(const Episode& episode) {
        const Index steps = statistics_.add(episode);
        for (Index h = 0; h < steps && replan_ > 0; ++h) {
            const Index pair = episode.pairs[h];
            if (statistics_.n(h, pair) >= std::max<Int>(1, replan_ * state_.planned(h, pair))) state_.due[0] = 1;
        }
        state_.finished[0] += 1;
        if (learned_) thresholds_.learn(radii_, episode, state_.lower, state_.upper);
        return state_.due[0] > 0 ? Answer::due : Answer::stayed;
    }

private:
    Radii radii_;
    Int replan_;
    bool learned_;
    CountingState state_;
    Statistics statistics_;
    Thresholds thresholds_;
};

}  // namespace safespot
