// The loop of training: the only place that knows both the truth and a learner.
//
//     for each episode of a chunk:
//         watch      its thresholds, and the exact values of its policy -> metrics
//         play       it, as the learner sees it
//         meter      what it proves of the violation, without the truth
//         learn      the learner's own step
#pragma once

#include "levels.hpp"
#include "meter.hpp"
#include "metrics.hpp"
#include "simulation.hpp"
#include "spot.hpp"
#include "window.hpp"

namespace safespot {

// What the loop knows of the problem and the learner does not.
struct Truth {
    Model model;
    Laws laws;
    ConstFloats<2> target;           // [m, H]: where the thresholds drift to
    ConstFloats<1> offsets, scales;  // [1+m]: units of the reward and the constraints
    bool scaled;                     // whether these units differ from the inside ones
};

// What is played: the noise of the coming episodes, and buffers for one of them.
struct Playing {
    Noise noise;
    ConstFloats<1> progress;  // [episodes]: how far the drift is in each
    ConstFloats<1> optima;    // [episodes]: the optimum in each
    Played played;
    Floats<2> alpha;  // [m, H]: the thresholds of the episode in `played`
    Floats<1> drift;  // [1]: how far the drift is that they stand for; NaN before the first

    Episode episode() const {
        return {played.states, played.pairs, played.rewards, played.constraints, played.thresholds};
    }
};

// The meter of a run, and what it showed at every episode of the grid.
struct Metering {
    bool checked;  // whether totals were declared, so that an episode may lie outside
    Meter meter;
    ConstFloats<1> levels;  // [2+2m]
    Floats<1> row, x;       // [2+4m], [2+2m]: buffers
    Floats<2> rows;         // [grid, 2+2m]: bounds of sums
    Floats<2> sums;         // [n, 2+4m]: of the first n episodes
    View<bool, 1> moved;    // [n+1]: whether an episode's policy was another one than before

    // Add up an episode; return whether its totals lie where they were declared to.
    bool add(const Episode& episode) const {
        add_up(episode, row);
        return !checked || meter.declared.fits(row);
    }

    // Count the episode that was added up; with a row of the grid, read the bounds into it.
    void count(Index grid_row) const {
        const Index n = meter.counted();
        if (n < sums.extent(0)) std::copy_n(row.data(), row.extent(0), sums[n].data());
        meter.observe(row, x);
        if (grid_row >= 0) meter.read(levels, rows[grid_row]);
    }

    // The coming episode's policy is another one than that of the last episode counted.
    void mark_moved() const {
        const Index n = meter.counted();
        if (n < moved.extent(0)) moved[n] = true;
    }
};

template <class Learner>
class Loop {
public:
    Loop(const Truth& truth, const Playing& playing, const Tracker& tracker, const Record& record, bool every,
         const Metering& metering, Learner& learner)
        : truth_(truth),
          playing_(playing),
          tracker_(tracker),
          record_(record),
          every_(every),
          metering_(metering),
          learner_(learner) {}

    // Episodes `first` up to `last` of the chunk; returns the one that has to wait for the learner's
    // Python part: where there is no room for one more episode, where the learner says that
    // something is due, or where an episode has other totals than were declared, which is not
    // learned from.
    Index play(Index first, Index last) {
        const auto& state = learner_.state();
        const Episode episode = playing_.episode();
        bool stale = true;  // whether the policy has moved since its values were last taken
        for (Index n = first; n < last; ++n) {
            if (!learner_.has_room()) return n;
            if (playing_.progress[n] != playing_.drift[0]) set_thresholds(playing_.progress[n]);
            const Index row = watch(state, playing_.optima[n], stale);
            safespot::play(truth_.model, truth_.laws, playing_.alpha, playing_.noise, n, state.pi, playing_.played);
            if (truth_.scaled) round_as_seen();
            if (!metering_.add(episode)) return n;
            metering_.count(row);
            const Answer answer = learner_.observe(episode);
            if (answer == Answer::due) return n + 1;
            if (answer == Answer::moved) {
                stale = true;
                metering_.mark_moved();
            }
        }
        return last;
    }

private:
    // Before an episode: where asked for the exact values of its policy, tracked and recorded.
    // Returns the row of the record, or -1.
    template <class State>
    Index watch(const State& state, double optimum, bool& stale) {
        const Int t = state.finished[0] + 1;
        const bool wanted = record_.wants(t);
        if (!every_ && !wanted) return -1;
        if (stale) {
            forward_values(truth_.model, state.pi, tracker_.occupancy, tracker_.values);
            stale = false;
        }
        tracker_.track(static_cast<double>(t), optimum);
        if (!wanted) return -1;
        tracker_.write(record_, state.lambda, state.lower, state.upper);
        return record_.written[0] - 1;
    }

    // The thresholds of an episode, and their sums, where the drift is so far.
    void set_thresholds(double progress) {
        for (Index i = 0; i < playing_.alpha.extent(0); ++i) {
            double sum = 0.0;
            for (Index h = 0; h < playing_.alpha.extent(1); ++h) {
                const double alpha = truth_.model.alpha(i, h);
                playing_.alpha(i, h) = alpha + progress * (truth_.target(i, h) - alpha);
                sum += playing_.alpha(i, h);
            }
            tracker_.limits[i] = sum;
        }
        playing_.drift[0] = progress;
    }

    // Take the signals to the user's units and back, as a learner does that observes them.
    void round_as_seen() {
        const auto round_trip = [&](double& x, Index c) {
            const double offset = truth_.offsets[c], scale = truth_.scales[c];
            x = std::min(std::max(((offset + scale * x) - offset) / scale, 0.0), 1.0);
        };
        const Played& played = playing_.played;
        for (Index h = 0; h < played.pairs.extent(0); ++h) {
            round_trip(played.rewards[h], 0);
            for (Index i = 0; i < played.constraints.extent(1); ++i) {
                round_trip(played.constraints(h, i), 1 + i);
                round_trip(played.thresholds(h, i), 1 + i);
            }
        }
    }

    Truth truth_;
    Playing playing_;
    Tracker tracker_;
    Record record_;
    bool every_;
    Metering metering_;
    Learner& learner_;
};

// Compiled for every level; for each kind of learner in loop.cpp.
template <class Learner>
Answer observe(Learner& learner, const Episode& episode, Level level);
template <class Learner>
Index play(Loop<Learner>& loop, Index first, Index last, Level level);

}  // namespace safespot
