// SPOT in epochs: what every episode counts, and when Python has to decide something.
//
// An episode joins the counts and the thresholds; one of the learner's own policy joins the trial of
// that policy, or pays for exploring. Phases, shares of delta and plans stay in Python.
#pragma once

#include "budget.hpp"
#include "hint_totals.hpp"
#include "spot.hpp"
#include "trial.hpp"

namespace safespot {

enum class Part : Int { first = 0, exploring = 1, trying = 2, retreated = 3 };

// Entries of the clock; Python has others between them.
struct Clock {
    View<Int, 1> entries;

    enum Entry : Index { part = 1, ends = 4, next = 5, grown = 6, verdict = 7, own = 11, due = 12, outside = 13 };
    Int& operator[](Entry entry) const { return entries[entry]; }
    Part phase_part() const { return static_cast<Part>(entries[part]); }
    Verdict of_trial() const { return static_cast<Verdict>(entries[verdict]); }

    // Whether Python has to decide something after t episodes.
    bool is_due(Int t) const {
        const Clock& now = *this;
        if (t >= now[ends] || of_trial() == Verdict::kept || now[outside] > 0) return true;
        if (phase_part() == Part::exploring) return now[grown] > 0 && t >= now[next];
        return phase_part() != Part::retreated && of_trial() == Verdict::broken;
    }
};

struct EpochState {
    Floats<1> pi;            // [H*S*A]
    Floats<1> lambda;        // [m]
    Floats<1> lower, upper;  // [m]: bounds of the thresholds
    View<Int, 1> finished;   // [1]: episodes
    Clock clock;
    View<Int, 1> visits;         // [K*S*A]: of every pair, of all steps together where these are alike
    View<const Int, 1> planned;  // [K*S*A]: the same at the last exploring plan
    Floats<1> owed;              // [m]: what exploring fell short by and has not made up for
    Floats<1> sums;              // [2+4m]: these two are buffers
    Floats<1> x;                 // [2+4m]
};

struct EpochRates {
    bool shared;   // whether the steps share their counts
    bool narrow;   // whether smaller totals were declared than the steps can have
    bool learned;  // whether the thresholds are
};

class Epochs {
public:
    Epochs(const EpochRates& rates, const EpochState& state, const Statistics& statistics, const HintTotals& hints,
           const Trial& trial, const Budget& exploring)
        : rates_(rates), state_(state), statistics_(statistics), hints_(hints), trial_(trial), exploring_(exploring) {}

    const EpochState& state() const { return state_; }
    bool has_room() const { return statistics_.has_room() && hints_.has_room(); }

    Answer observe(const Episode& episode) {
        const Clock& clock = state_.clock;
        const Declared& declared = trial_.declared;
        const Index pairs = statistics_.n.extent(1), steps = statistics_.add(episode);
        for (Index h = 0; h < steps; ++h) {
            const Index k = (rates_.shared ? 0 : h * pairs) + episode.pairs[h];
            state_.visits[k] += 1;
            if (state_.visits[k] >= 2 * state_.planned[k]) clock[Clock::grown] = 1;
        }
        state_.finished[0] += 1;
        if (rates_.learned) hints_.observe(episode.thresholds, state_.lower, state_.upper);
        add_up(episode, state_.sums);
        if (rates_.narrow && !declared.fits(state_.sums)) clock[Clock::outside] = 1;
        const bool own = clock[Clock::own] > 0, explores = clock.phase_part() == Part::exploring;
        if (own && (clock.phase_part() == Part::first || clock.phase_part() == Part::trying)) {
            const Verdict now = trial_.observe(state_.sums, clock.of_trial(), state_.lower, state_.upper, state_.x);
            clock[Clock::verdict] = static_cast<Int>(now);
        }
        const bool capped = !exploring_.most.empty();
        if (own && explores) {
            const Floats<1> x = state_.x.part(0, 2 + 2 * declared.m());
            declared.differences(state_.sums, x);
            note_shortfall(x);
            if (capped) exploring_.charge(x, false);
        }
        clock[Clock::own] = 1;
        const bool over = explores && capped && !exploring_.fits();
        if (over || clock.is_due(state_.finished[0]) || !hints_.has_room()) clock[Clock::due] = 1;
        return clock[Clock::due] > 0 ? Answer::due : Answer::stayed;
    }

private:
    // owed <- max(0, owed - D); where samples are missing, D lies in the middle of what they leave open.
    void note_shortfall(ConstFloats<1> x) const {
        const Declared& declared = trial_.declared;
        for (Index i = 0; i < declared.m(); ++i) {
            const double middle = (1.0 + x[2 + 2 * i] - x[3 + 2 * i]) / 2.0;
            const double difference = declared.least[i] + declared.width[i] * middle;
            state_.owed[i] = std::max(0.0, state_.owed[i] - difference);
        }
    }

    EpochRates rates_;
    EpochState state_;
    Statistics statistics_;
    HintTotals hints_;
    Trial trial_;
    Budget exploring_;
};

}  // namespace safespot
