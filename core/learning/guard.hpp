// A guard around a learner: it plays the learner's policy while one more episode of it fits in the
// budget, and else the baseline (docs/guard.md).
#pragma once

#include <algorithm>

#include "budget.hpp"
#include "spot.hpp"
#include "trial.hpp"

namespace safespot {

// Who plays an episode. same: the learner's policy is the baseline; other: neither of the two.
enum class Player : Int { baseline = 0, learner = 1, same = 2, other = 3 };
// Whether the baseline is unsafe: not proven, proven, and told.
enum class Trust : Int { trusted = 0, proven = 1, said = 2 };

struct Account {
    Budget budget;
    Trial trial;                // of the baseline's episodes
    bool credit;                // whether these count
    View<Int, 1> plays;         // [4]: episodes of each player
    View<Int, 1> turn, unsafe;  // [1]
    Floats<1> sums, x;          // [2+4m]: buffers

    Player player() const { return static_cast<Player>(turn[0]); }
    bool trusted() const { return static_cast<Trust>(unsafe[0]) == Trust::trusted; }
    bool proven_unsafe() const { return static_cast<Trust>(unsafe[0]) == Trust::proven; }

    // An episode that `turn` has played.
    void charge(const Episode& episode) const {
        const bool baseline = player() == Player::baseline || player() == Player::same;
        plays[turn[0]] += 1;
        add_up(episode, sums);
        if (credit || !baseline) {
            budget.declared.differences(sums, x.part(0, 2 + 2 * budget.declared.m()));
            budget.charge(x, baseline && trusted());
        }
        if (!baseline) return;
        const Verdict verdict = trial.observe(sums, Verdict::open, budget.spent, budget.spent, x);
        if (verdict != Verdict::broken || !trusted()) return;
        unsafe[0] = static_cast<Int>(Trust::proven);
        if (!credit) return;
        for (Index i = 0; i < budget.spent.extent(0); ++i) budget.spent[i] = budget.proven(i);
    }

    // The learner, if one more episode of its policy fits.
    Player next(ConstFloats<1> baseline, ConstFloats<1> learner) const {
        const double* end = baseline.data() + baseline.extent(0);
        if (std::equal(baseline.data(), end, learner.data())) return Player::same;
        return budget.fits() ? Player::learner : Player::baseline;
    }

    // Who plays the coming episode, and with which policy.
    void settle(ConstFloats<1> baseline, ConstFloats<1> learner, Floats<1> pi) const {
        const Player coming = next(baseline, learner);
        turn[0] = static_cast<Int>(coming);
        const ConstFloats<1> chosen = coming == Player::baseline ? baseline : learner;
        std::copy_n(chosen.data(), pi.extent(0), pi.data());
    }
};

template <class Learner>
class Guard {
public:
    // `pi` is what is played, `own` tells the guarded learner whether its own policy was.
    struct State {
        Floats<1> pi, lambda, lower, upper;
        View<Int, 1> finished;
    };

    Guard(const Account& account, Floats<1> pi, View<Int, 1> own, ConstFloats<1> baseline, Learner& learner)
        : account_(account), own_(own), baseline_(baseline), learner_(learner) {
        const auto& inner = learner.state();
        state_ = {pi, inner.lambda, inner.lower, inner.upper, inner.finished};
    }

    const State& state() const { return state_; }
    bool has_room() const { return learner_.has_room(); }

    Answer observe(const Episode& episode) {
        const Player turn = account_.player();
        account_.charge(episode);
        own_[0] = turn == Player::learner || turn == Player::same;
        const Answer answer = learner_.observe(episode);
        // Python decides, when the learner has its next policy.
        if (answer == Answer::due || account_.proven_unsafe()) return Answer::due;
        const ConstFloats<1> learner = learner_.state().pi;
        const Player coming = account_.next(baseline_, learner);
        if (coming == turn && (coming == Player::baseline || answer == Answer::stayed)) return Answer::stayed;
        account_.settle(baseline_, learner, state_.pi);
        return Answer::moved;
    }

private:
    Account account_;
    View<Int, 1> own_;
    ConstFloats<1> baseline_;
    Learner& learner_;
    State state_;
};

}  // namespace safespot
