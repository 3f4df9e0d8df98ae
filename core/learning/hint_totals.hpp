// Bounds on an episode's threshold, alpha = sum_h alpha_h, from the hints that episodes show.
//
// Their sum has the mean alpha whichever pairs were visited, so nothing is paid for states, actions
// and steps. What is declared of the hints decides what one number of the sequence is; a missing hint
// counts as 0 in the lower and as 1 in the upper bound, unless samples are alike (docs/evidence.md).
#pragma once

#include "episode.hpp"
#include "radii.hpp"
#include "sequences.hpp"
#include "totals.hpp"

namespace safespot {

struct HintTotals {
    // What a number is made of: an episode's total; a step (`independent_hints`); an episode's
    // samples (`shared_threshold`); a sample (both); an episode's total, in a window.
    enum class Kind : Int { episodes, steps, shared, samples, window };

    Kind kind;
    Targets targets;
    double level;           // ln(1/share) of one side of one constraint
    double gamma;           // the window, a part of the episodes
    ConstFloats<2> limits;  // [2, m]: the least and the largest total, inside
    Floats<2> means;        // [2m, FixedMean::width], or empty; rows 2i and 2i+1 for the two sides
    Floats<2> by_step;      // [2m, H]: sums of a step's x, from which it is guessed; or empty
    Floats<2> shared;       // [m, SampleMean::width], or empty
    Floats<2> powers;       // [2m, WindowSum::width], or empty
    Floats<3> ring;         // [capacity, 2m, 2]: x and y of the window's episodes
    View<Int, 1> span;      // [3]: episodes, the window's length, where its oldest is
    Floats<1> due;          // [1]: the episode at which `shared` is read again
    Floats<2> best;         // [2, m]: the best bounds so far, where a learner's own are derived

    bool has_room() const { return ring.empty() || span[1] < ring.extent(0); }

    // As a learner's thresholds; the paper's radii are not needed.
    void learn(const Radii& radii, const Episode& episode, Floats<1> lower, Floats<1> upper) const {
        observe(episode.thresholds, best[0], best[1]);
        bounds(radii, lower, upper);
    }
    void bounds(const Radii&, Floats<1> lower, Floats<1> upper) const {
        for (Index i = 0; i < lower.extent(0); ++i) {
            lower[i] = best(0, i);
            upper[i] = best(1, i);
        }
    }

    // Count an episode's hints [H,m] and tighten the bounds [m].
    void observe(ConstFloats<2> hints, Floats<1> lower, Floats<1> upper) const {
        const auto H = static_cast<double>(hints.extent(0));
        span[0] += 1;
        if (kind == Kind::window) slide();
        const bool read_shared = static_cast<double>(span[0]) >= due[0];
        for (Index i = 0; i < lower.extent(0); ++i) {
            const double least = limits(0, i), most = limits(1, i);
            switch (kind) {
                case Kind::episodes: {
                    const Ends x = share(hints, i);
                    FixedMean(means[2 * i]).observe(targets, x.low);
                    FixedMean(means[2 * i + 1]).observe(targets, x.high);
                    read(i, least, most, lower, upper);
                    break;
                }
                case Kind::window: {
                    const Ends x = share(hints, i);
                    join(2 * i, x.low);
                    join(2 * i + 1, x.high);
                    read_window(i, lower, upper);
                    break;
                }
                case Kind::steps:
                    observe_steps(hints, i);
                    read(i, 0.0, H, lower, upper);
                    break;
                case Kind::samples:
                    observe_each(hints, i);
                    read(i, 0.0, H, lower, upper);
                    break;
                case Kind::shared:
                    observe_shared(hints, i);
                    if (read_shared) this->read_shared(i, H, lower, upper);
                    break;
            }
        }
        if (read_shared) due[0] = static_cast<double>(span[0] + std::max<Int>(1, span[0] / 32));
    }

private:
    // The least that an episode's hints leave open, and 1 less the largest, in parts of the range.
    Ends share(ConstFloats<2> hints, Index i) const {
        const double least = limits(0, i), most = limits(1, i);
        double under = 0.0, over = 0.0;
        for (Index h = 0; h < hints.extent(0); ++h) {
            const bool missing = std::isnan(hints(h, i));
            under += missing ? 0.0 : hints(h, i);
            over += missing ? 1.0 : hints(h, i);
        }
        const double low = std::min(std::max(under, least), most), high = std::min(std::max(over, least), most);
        return {(low - least) / (most - least), (most - high) / (most - least)};
    }

    // A number for each step, all with the episode's weights: then their exponents sum up to
    // l (alpha - sum_h c_h).
    void observe_steps(ConstFloats<2> hints, Index i) const {
        const auto n = static_cast<double>(span[0]);
        for (Index side = 0; side < 2; ++side) {
            const Index r = 2 * i + side;
            const FixedMean sequence(means[r]);
            double largest = 0.0;
            for (Index h = 0; h < hints.extent(0); ++h) largest = std::max(largest, (0.5 + by_step(r, h)) / n);
            sequence.choose_weights(targets, largest);
            for (Index h = 0; h < hints.extent(0); ++h) {
                const double hint = hints(h, i), x = std::isnan(hint) ? 0.0 : side == 0 ? hint : 1.0 - hint;
                sequence.add_factor(x, (0.5 + by_step(r, h)) / n);
                by_step(r, h) += x;
            }
        }
    }

    void observe_each(ConstFloats<2> hints, Index i) const {
        for (Index h = 0; h < hints.extent(0); ++h) {
            if (std::isnan(hints(h, i))) continue;
            FixedMean(means[2 * i]).observe(targets, hints(h, i));
            FixedMean(means[2 * i + 1]).observe(targets, 1.0 - hints(h, i));
        }
    }

    // The samples of an episode, one number for all.
    void observe_shared(ConstFloats<2> hints, Index i) const {
        double n = 0.0, total = 0.0;
        for (Index h = 0; h < hints.extent(0); ++h) {
            if (std::isnan(hints(h, i))) continue;
            n += 1.0;
            total += hints(h, i);
        }
        SampleMean(shared[i]).observe(n, total);
    }

    void read(Index i, double least, double most, Floats<1> lower, Floats<1> upper) const {
        const FixedMean below(means[2 * i]), above(means[2 * i + 1]);
        below.read_when_due(targets, level);
        above.read_when_due(targets, level);
        tighten(least + (most - least) * below.lower(), most - (most - least) * above.lower(), i, lower, upper);
    }

    // The same of the mean per sample; above, of 1 - x, whose sums follow.
    void read_shared(Index i, double H, Floats<1> lower, Floats<1> upper) const {
        const SampleMean sums(shared[i]);
        Array<SampleMean::width> memory = sums.mirrored();
        const SampleMean mirrored(Floats<1>(memory.data(), {SampleMean::width}));
        tighten(H * sums.bound(H, level), H * (1.0 - mirrored.bound(H, level)), i, lower, upper);
    }

    // Bounds that hold at all times at once may be intersected; the lower one is never above.
    static void tighten(double low, double high, Index i, Floats<1> lower, Floats<1> upper) {
        lower[i] = std::max(lower[i], low);
        upper[i] = std::max(lower[i], std::min(upper[i], high));
    }

    // Before the newest episode joins, those leave that are older than W = max(1, floor(gamma t)).
    void slide() const {
        const auto longest = std::max<Int>(1, static_cast<Int>(std::floor(gamma * static_cast<double>(span[0]))));
        while (span[1] >= longest) {
            const Index oldest = span[2];
            for (Index r = 0; r < powers.extent(0); ++r) {
                WindowSum(powers[r]).move(ring(oldest, r, 0), ring(oldest, r, 1), -1.0);
            }
            span[2] = (oldest + 1) % ring.extent(0);
            span[1] -= 1;
        }
        span[1] += 1;
    }

    // The newest x of row r; the guess is the mean over the rest of the window.
    void join(Index r, double x) const {
        const auto length = static_cast<double>(span[1]);
        const WindowSum sum(powers[r]);
        const double y = x - within((0.5 + sum.total()) / length);
        const Index place = (span[2] + span[1] - 1) % ring.extent(0);
        ring(place, r, 0) = x;
        ring(place, r, 1) = y;
        sum.move(x, y);
    }

    // The bounds of the mean over the window as it stands, each t with its own share.
    void read_window(Index i, Floats<1> lower, Floats<1> upper) const {
        const auto t = static_cast<double>(span[0]), length = static_cast<double>(span[1]);
        const double each = level + std::log(t) + std::log(t + 1.0);
        const auto mean = [&](Index r) { return std::min(WindowSum(powers[r]).bound(each) / length, 1.0); };
        const double least = limits(0, i), range = limits(1, i) - least;
        const double low = mean(2 * i), high = 1.0 - mean(2 * i + 1);
        lower[i] = least + range * low;
        upper[i] = std::max(lower[i], least + range * high);
    }
};

}  // namespace safespot
