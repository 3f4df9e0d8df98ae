// What Python sees of the core: records of arrays are checked, bound once and kept alive.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <memory>

#include "loop.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace safespot;

namespace {

constexpr Index any = -1;  // an extent that the array itself says

template <class T>
constexpr const char* type_name() {
    using U = std::remove_const_t<T>;
    if constexpr (std::is_same_v<U, double>) return "float64";
    if constexpr (std::is_same_v<U, Int>) return "int64";
    if constexpr (std::is_same_v<U, std::int32_t>) return "int32";
    return "bool";
}

// An array of Python's as a view; raises where it is not what the core can work on. An extent of
// `any` is filled in.
template <class T, int Rank>
View<T, Rank> as_view(nb::handle array, const std::string& name, std::array<Index, Rank> shape) {
    nb::ndarray<T, nb::ndim<Rank>, nb::c_contig, nb::device::cpu> view;
    const bool numpy = nb::isinstance(array, nb::module_::import_("numpy").attr("ndarray"));
    if (!numpy || !nb::try_cast(array, view, false) ||
        reinterpret_cast<std::uintptr_t>(view.data()) % alignof(T) != 0) {
        const std::string kind = std::is_const_v<T> ? "" : "writable, ";
        throw nb::type_error((name + " must be a " + kind + "C-contiguous array of " + type_name<T>() + " with " +
                              std::to_string(Rank) + " axes.")
                                 .c_str());
    }
    for (int axis = 0; axis < Rank; ++axis) {
        const auto extent = static_cast<Index>(view.shape(axis));
        if (shape[axis] != any && shape[axis] != extent) {
            throw nb::value_error((name + " has " + std::to_string(extent) + " entries along axis " +
                                   std::to_string(axis) + "; expected " + std::to_string(shape[axis]) + ".")
                                      .c_str());
        }
        shape[axis] = extent;
    }
    return {view.data(), shape};
}

void require(bool condition, const char* message) {
    if (!condition) throw nb::value_error(message);
}

// A record's arrays, bound: kept alive, and, since they are weakly referenced, never resized.
class Bound {
public:
    template <class T, int Rank>
    View<T, Rank> array(nb::handle record, const char* name, std::array<Index, Rank> shape) {
        const nb::object value = nb::getattr(record, name);
        const auto view = as_view<T, Rank>(value, name, shape);
        kept_.push_back(value);
        kept_.push_back(nb::weakref(value));
        return view;
    }
    template <int Rank>
    Floats<Rank> floats(nb::handle record, const char* name, std::array<Index, Rank> shape) {
        return array<double, Rank>(record, name, shape);
    }
    template <int Rank>
    ConstFloats<Rank> reads(nb::handle record, const char* name, std::array<Index, Rank> shape) {
        return array<const double, Rank>(record, name, shape);
    }
    void keep(nb::object object) { kept_.push_back(std::move(object)); }

private:
    std::vector<nb::object> kept_;
};

double number(nb::handle record, const char* name) { return nb::cast<double>(nb::getattr(record, name)); }

Radii as_radii(nb::handle r) {
    return {number(r, "L_r"),
            number(r, "L_p"),
            number(r, "L_b"),
            number(r, "H"),
            number(r, "S"),
            number(r, "bonus_scale"),
            number(r, "threshold_scale"),
            nb::cast<bool>(nb::getattr(r, "bernstein")),
            nb::cast<bool>(nb::getattr(r, "clip"))};
}

SpotRates as_rates(nb::handle r, Index S) {
    const SpotRates rates{as_radii(nb::getattr(r, "radii")),
                          number(r, "eta"),
                          number(r, "step"),
                          number(r, "xi"),
                          number(r, "rho"),
                          nb::cast<Index>(nb::getattr(r, "start")),
                          nb::cast<bool>(nb::getattr(r, "learned"))};
    require(0 <= rates.start && rates.start <= S, "start must be a state, or their number.");
    return rates;
}

// One episode's arrays, for the time of a call.
Episode as_episode(nb::handle record, Index H, Index S, Index A, Index m) {
    const Episode e{as_view<const Int, 1>(nb::getattr(record, "states"), "states", {H + 1}),
                    as_view<const Int, 1>(nb::getattr(record, "pairs"), "pairs", {H}),
                    as_view<const double, 1>(nb::getattr(record, "rewards"), "rewards", {H}),
                    as_view<const double, 2>(nb::getattr(record, "constraints"), "constraints", {H, m}),
                    as_view<const double, 2>(nb::getattr(record, "thresholds"), "thresholds", {H, m})};
    for (Index h = 0; h <= H; ++h) {
        const bool fits = 0 <= e.states[h] && e.states[h] < S &&
                          (h == H || (e.states[h] * A <= e.pairs[h] && e.pairs[h] < (e.states[h] + 1) * A));
        require(fits, "states and pairs must lie within the problem, and pairs be s*A + a.");
    }
    return e;
}

// A view of an object that holds another one's memory in use while a thread works on it.
class InUse {
public:
    explicit InUse(std::atomic<bool>& flag) : flag_(flag) {
        if (flag_.exchange(true)) throw std::runtime_error("another thread is using this object.");
    }
    InUse(const InUse&) = delete;
    InUse& operator=(const InUse&) = delete;
    ~InUse() { flag_ = false; }

private:
    std::atomic<bool>& flag_;
};

Level as_level(const std::string& name) {
    const auto names = levels();
    for (std::size_t k = 0; k < names.size(); ++k) {
        if (name == names[k]) return static_cast<Level>(k);
    }
    require(name.empty(), "level must be one of `levels`, or empty for the widest.");
    return static_cast<Level>(names.size() - 1);
}

constexpr Int most = Int{1} << 53;  // episodes: counts are exact as doubles, too

struct PyStatistics {
    Bound bound;
    Statistics core;

    PyStatistics(nb::handle r, nb::handle pooling) {
        core.starts = bound.array<Int, 1>(r, "starts", {any});
        core.n = bound.array<Int, 2>(r, "n", {any, any});
        const Index H = core.n.extent(0), S = core.starts.extent(0), pairs = core.n.extent(1);
        require(H > 0 && S > 0 && pairs > 0 && pairs % S == 0, "n must be [H, S*A], none of them 0.");
        core.sums = bound.floats<3>(r, "sums", {any, H, pairs});
        require(core.components() > 1, "sums must have a row for the reward and each constraint.");
        if (!pooling.is_none()) {
            core.pooling.flags = bound.array<const bool, 1>(pooling, "flags", {core.components() + 1});
            core.pooling.n = bound.array<Int, 1>(pooling, "n", {pairs});
        }
        const Index K = core.pooling.transitions() ? 1 : H;
        core.met = bound.array<Int, 2>(r, "met", {K, S});
        core.how_many = bound.array<Int, 1>(r, "how_many", {K});
        core.known = bound.array<bool, 2>(r, "known", {K, S});
        core.successors = lists(nb::getattr(r, "successors"), K, S, pairs);
        const auto counts = [](const Int* n, Index size) {
            return std::all_of(n, n + size, [](Int each) { return 0 <= each && each < most; });
        };
        require(counts(core.n.data(), core.n.size()) && counts(core.starts.data(), S) &&
                    counts(core.pooling.n.data(), core.pooling.n.size()),
                "counts must lie between 0 and 2^53.");
        check();
    }

    Successors lists(nb::handle r, Index K, Index S, Index pairs) {
        Successors made;
        made.dense = bound.floats<3>(r, "dense", {any, any, any});
        if (made.is_dense()) {
            require(made.dense.extent(0) == K && made.dense.extent(1) == S && made.dense.extent(2) == pairs,
                    "dense must be [K, S, S*A].");
            return made;
        }
        made.where = bound.array<Int, 2>(r, "where", {K, S});
        made.length = bound.array<Int, 2>(r, "length", {K, S});
        made.room = bound.array<Int, 2>(r, "room", {K, S});
        made.states = bound.array<std::int32_t, 1>(r, "states", {any});
        made.actions = bound.array<std::int32_t, 1>(r, "actions", {made.states.extent(0)});
        made.counts = bound.floats<1>(r, "counts", {made.states.extent(0)});
        made.used = bound.array<Int, 1>(r, "used", {1});
        return made;
    }

    void check() const { require(core.consistent(), "the visit statistics name places that do not exist."); }
    Episode episode(nb::handle record) const {
        return as_episode(record, core.H(), core.S(), core.A(), core.components() - 1);
    }
    void observe(nb::handle record) const {
        const Episode e = episode(record);
        check();
        require(core.has_room(), "there is no room for one more episode.");
        core.add(e);
    }
};

struct PyWindow {
    Bound bound;
    Window core;

    explicit PyWindow(nb::handle r) {
        core.n = bound.array<Int, 2>(r, "n", {any, any});
        const Index H = core.n.extent(0), pairs = core.n.extent(1);
        core.sums = bound.floats<3>(r, "sums", {any, H, pairs});
        const Index m = core.sums.extent(0);
        require(H > 0 && pairs > 0 && m > 0, "n must be [H, pairs] and sums [m, H, pairs], none of them 0.");
        core.carries = bound.floats<3>(r, "carries", {m, H, pairs});
        core.pairs = bound.array<std::int32_t, 2>(r, "pairs", {any, H});
        core.samples = bound.floats<3>(r, "samples", {core.capacity(), H, m});
        core.tree = bound.array<std::int32_t, 2>(r, "tree", {H, any});
        const Index leaves = core.tree.extent(1) / 2;
        require(core.tree.extent(1) == 2 * leaves && leaves > 0 && (leaves & (leaves - 1)) == 0 &&
                    (leaves >= pairs || (leaves == 1 && core.capacity() == 0)),
                "tree must be [H, 2 * leaves] with a power of 2 of leaves, one for each pair.");
        core.span = bound.array<Int, 1>(r, "span", {3});
        core.gamma = bound.reads<1>(r, "gamma", {1})[0];
        require(0.0 < core.gamma && core.gamma <= 1.0, "gamma must lie between 0 and 1, 0 excluded.");
        core.rebuild_tree();
        check();
    }
    void check() const { require(core.consistent(), "the window names places that do not exist."); }
    void bounds(nb::handle radii, nb::handle lower, nb::handle upper) const {
        check();
        core.bounds(as_radii(radii), as_view<double, 1>(lower, "lower", {core.m()}),
                    as_view<double, 1>(upper, "upper", {core.m()}));
    }
};

struct PySpot {
    Bound bound;
    const PyStatistics& statistics;
    const PyWindow& window;
    Level level;
    std::unique_ptr<Spot<Window>> core;
    std::atomic<bool> in_use = false;

    PySpot(nb::handle rates, nb::handle r, const PyStatistics& statistics, const PyWindow& window,
           const std::string& level)
        : statistics(statistics), window(window), level(as_level(level)) {
        const Statistics& s = statistics.core;
        const Index H = s.H(), S = s.S(), A = s.A(), C = s.components(), m = C - 1;
        require(window.core.H() == H && window.core.m() == m &&
                    (window.core.n.extent(1) == 1 || window.core.n.extent(1) == S * A),
                "the window must be of the same H, m and pairs.");
        const SpotState state{bound.floats<3>(r, "logits", {H, S, A}).flat(),
                              bound.floats<3>(r, "pi", {H, S, A}).flat(),
                              bound.floats<1>(r, "lam", {m}),
                              bound.floats<1>(r, "lower", {m}),
                              bound.floats<1>(r, "upper", {m}),
                              bound.array<Int, 1>(r, "finished", {1})};
        const OptimisticModel model{
            bound.array<const bool, 2>(r, "mask", {H, S * A}), bound.floats<3>(r, "deficit", {C, H, S * A}),
            bound.floats<2>(r, "weight", {H, S * A}), bound.floats<2>(r, "max_deficit", {H, S})};
        core = std::make_unique<Spot<Window>>(as_rates(rates, S), state, model, s, window.core);
    }
    void check() const {
        statistics.check();
        window.check();
        require(0 <= core->state().finished[0] && core->state().finished[0] < most,
                "the number of finished episodes must lie between 0 and 2^53.");
    }
    int observe(nb::handle record) {
        const Episode e = statistics.episode(record);
        check();
        require(core->has_room(), "there is no room for one more episode.");
        const InUse now(in_use);
        return static_cast<int>(safespot::observe(*core, e, level));
    }
    void derive() {
        check();
        const InUse now(in_use);
        core->derive();
    }
    void evaluate(nb::handle pi, nb::handle lambda, nb::handle Q, nb::handle V) {
        const Statistics& s = statistics.core;
        const Index H = s.H(), S = s.S(), C = s.components(), pairs = s.n.extent(1);
        const auto policy = as_view<const double, 2>(pi, "pi", {H, pairs});
        const auto prices = as_view<const double, 1>(lambda, "lam", {C - 1});
        const auto out = as_view<double, 3>(Q, "Q", {C, H, pairs});
        const auto values = as_view<double, 2>(V, "V", {C, S});
        check();
        const InUse now(in_use);
        core->evaluate(policy, prices, out, values);
    }
};

Declared as_declared(Bound& bound, nb::handle r, Index m) {
    const auto alpha = bound.reads<1>(r, "alpha", {any});
    require(alpha.empty() || alpha.extent(0) == m, "alpha must be [m], or empty.");
    return {alpha, bound.reads<2>(r, "values", {2, m}), bound.reads<2>(r, "limits", {2, m}),
            bound.reads<1>(r, "least", {m}), bound.reads<1>(r, "scale", {1 + m})};
}

struct PyMeter {
    Bound bound;
    Meter core;

    PyMeter(nb::handle declared, nb::handle state) {
        core.means = bound.floats<2>(state, "means", {any, ChangingMeans::width});
        const Index m = core.means.extent(0) / 2;
        require(m > 0 && core.means.extent(0) == 2 * m, "means must have two rows for each constraint.");
        core.reward = bound.floats<2>(state, "reward", {2, WindowSum::width});
        core.declared = as_declared(bound, declared, m);
    }
    Index m() const { return core.means.extent(0) / 2; }
    void check() const {
        const double counted = ChangingMeans(core.means[0]).counted();
        require(0.0 <= counted && counted < static_cast<double>(most), "the meter's count is none.");
    }
    void observe(nb::handle rewards, nb::handle constraints, nb::handle thresholds) const {
        const auto r = as_view<const double, 2>(rewards, "rewards", {any, any});
        const Index n = r.extent(0), H = r.extent(1);
        const auto g = as_view<const double, 3>(constraints, "constraints", {n, H, m()});
        const auto x = as_view<const double, 3>(thresholds, "thresholds", {n, H, m()});
        check();
        const View<const Int, 1> pairs(nullptr, {H});
        for (Index k = 0; k < n; ++k) core.observe(Episode{{}, pairs, r[k], g[k], x[k]});
    }
    void read(nb::handle levels, nb::handle lower) const {
        core.read(as_view<const double, 1>(levels, "levels", {2 + 2 * m()}),
                  as_view<double, 1>(lower, "lower", {2 + 2 * m()}));
    }
};

Noise as_noise(Bound& bound, nb::handle r, Index H, Index m) {
    const auto start = bound.reads<1>(r, "start", {any});
    const Index n = start.extent(0);
    return {start,
            bound.reads<2>(r, "actions", {n, H}),
            bound.reads<2>(r, "transitions", {n, H}),
            bound.reads<2>(r, "rewards", {n, H}),
            bound.reads<3>(r, "constraints", {n, H, m}),
            bound.reads<3>(r, "thresholds", {n, H, m})};
}

Played as_played(Bound& bound, nb::handle r, Index H, Index m) {
    return {bound.array<Int, 1>(r, "states", {H + 1}), bound.array<Int, 1>(r, "pairs", {H}),
            bound.floats<1>(r, "rewards", {H}), bound.floats<2>(r, "constraints", {H, m}),
            bound.floats<2>(r, "thresholds", {H, m})};
}

struct PyTruth {
    Bound bound;
    Model model;
    Laws laws;
    std::vector<double> memory;  // of the exact values

    PyTruth(nb::handle r, nb::handle laws_record) {
        model.payoffs = bound.reads<3>(r, "payoffs", {any, any, any});
        model.alpha = bound.reads<2>(r, "alpha", {model.components() - 1, any});
        model.start = bound.reads<1>(r, "start", {any});
        const Index H = model.H(), S = model.S(), pairs = model.pairs(), m = model.components() - 1;
        require(m > 0 && H > 0 && S > 0 && pairs > 0 && pairs % S == 0 &&
                    (model.payoffs.extent(1) == 1 || model.payoffs.extent(1) == H),
                "payoffs must be [1+m, K, S*A] and alpha [m, H], none of them 0.");
        model.P = transitions(nb::getattr(r, "P"), H, S, pairs);
        const auto codes = bound.array<const Int, 1>(laws_record, "codes", {3});
        const auto parameters = bound.reads<1>(laws_record, "parameters", {3});
        const auto outcomes = bound.reads<3>(laws_record, "outcomes", {any, any, any});
        require(outcomes.empty() || (outcomes.extent(0) == m && outcomes.extent(1) == pairs && outcomes.extent(2) == S),
                "outcomes must be [m, S*A, S], or empty.");
        const auto law = [&](Index k) { return Law{codes[k], parameters[k]}; };
        laws = {law(0), law(1), law(2), outcomes};
        memory.resize(2 * S + 2 * pairs);
    }

    Transitions transitions(nb::handle r, Index H, Index S, Index pairs) {
        Transitions P{bound.reads<3>(r, "dense", {any, any, any}), bound.array<const Int, 2>(r, "starts", {any, any}),
                      bound.array<const std::int32_t, 1>(r, "successors", {any}),
                      bound.reads<1>(r, "probabilities", {any})};
        const auto steps = [&](Index K) { return K == 1 || K == H; };
        if (P.is_dense()) {
            require(
                steps(P.dense.extent(0)) && P.dense.extent(1) == pairs && P.dense.extent(2) == S && P.starts.empty(),
                "dense transitions must be [K, S*A, S].");
            return P;
        }
        const Index entries = P.successors.extent(0);
        bool fits = steps(P.starts.extent(0)) && P.starts.extent(1) == pairs + 1 && P.dense.extent(0) == 0 &&
                    P.probabilities.extent(0) == entries;
        for (Index k = 0; k < P.starts.extent(0) && fits; ++k) {
            fits = 0 <= P.starts(k, 0) && P.starts(k, pairs) <= entries;
            for (Index pair = 0; pair < pairs && fits; ++pair) {
                fits = P.starts(k, pair) <= P.starts(k, pair + 1);
            }
        }
        for (Index j = 0; j < entries && fits; ++j) {
            fits = 0 <= P.successors[j] && P.successors[j] < S;
        }
        require(fits, "sparse transitions must be rows [K, S*A + 1] of entries in order, of states.");
        return P;
    }

    ConstFloats<1> policy(nb::handle pi) const {
        return as_view<const double, 3>(pi, "pi", {model.H(), model.S(), model.A()}).flat();
    }
    void play(nb::handle alpha, nb::handle noise, Index n, nb::handle pi, nb::handle played) const {
        const Index H = model.H(), m = model.components() - 1;
        Bound call;
        const Noise numbers = as_noise(call, noise, H, m);
        require(0 <= n && n < numbers.start.extent(0), "n must be one of the noise's episodes.");
        safespot::play(model, laws, as_view<const double, 2>(alpha, "alpha", {m, H}), numbers, n, policy(pi),
                       as_played(call, played, H, m));
    }
    Index step(nb::handle alpha, nb::handle noise, Index n, Index h, Index pair, nb::handle played) const {
        const Index H = model.H(), m = model.components() - 1;
        Bound call;
        const Noise numbers = as_noise(call, noise, H, m);
        require(0 <= n && n < numbers.start.extent(0) && 0 <= h && h < H && 0 <= pair && pair < model.pairs(),
                "n, h and pair must lie within the noise and the model.");
        return play_step(model, laws, as_view<const double, 2>(alpha, "alpha", {m, H}), numbers, n, h, pair,
                         as_played(call, played, H, m));
    }
    void values(nb::handle pi, nb::handle out) {
        const Index S = model.S(), pairs = model.pairs();
        double* next = memory.data();
        const auto take = [&](Index entries) { return Floats<1>(std::exchange(next, next + entries), {entries}); };
        const Occupancy occupancy{take(S), take(S), take(pairs), take(pairs)};
        forward_values(model, policy(pi), occupancy, as_view<double, 1>(out, "values", {model.components()}));
    }
};

struct PyLoop {
    Bound bound;
    const PyTruth& truth;
    PySpot& spot;
    const PyMeter& meter;
    Noise noise;
    Record record;
    std::unique_ptr<Loop<Spot<Window>>> core;

    PyLoop(const PyTruth& truth, nb::handle units, nb::handle playing, nb::handle watching, nb::handle metering,
           const PyMeter& meter, PySpot& spot)
        : truth(truth), spot(spot), meter(meter) {
        const Model& model = truth.model;
        const Index H = model.H(), S = model.S(), pairs = model.pairs(), C = model.components(), m = C - 1;
        const Statistics& s = spot.statistics.core;
        require(s.H() == H && s.S() == S && s.n.extent(1) == pairs && s.components() == C && meter.m() == m,
                "the problem, the learner and the meter must be of the same S, A, H and m.");
        const Truth known{model,
                          truth.laws,
                          bound.reads<2>(units, "target", {m, H}),
                          bound.reads<1>(units, "offsets", {C}),
                          bound.reads<1>(units, "scales", {C}),
                          nb::cast<bool>(nb::getattr(units, "scaled"))};
        noise = as_noise(bound, nb::getattr(playing, "noise"), H, m);
        const Index n = noise.start.extent(0);
        const nb::object played = nb::getattr(playing, "played");
        const Playing play{noise,
                           bound.reads<1>(playing, "progress", {n}),
                           bound.reads<1>(playing, "optima", {n}),
                           as_played(bound, played, H, m),
                           bound.floats<2>(played, "alpha", {m, H}),
                           bound.floats<1>(played, "progress", {1})};
        const nb::object t = nb::getattr(watching, "tracker"), r = nb::getattr(watching, "record");
        const Tracker tracker{bound.floats<1>(t, "values", {C}),
                              bound.floats<1>(t, "limits", {m}),
                              bound.floats<2>(t, "totals", {2, C}),
                              bound.floats<1>(t, "last", {2}),
                              bound.floats<1>(t, "before", {C}),
                              bound.floats<1>(t, "limits_before", {m}),
                              {bound.floats<1>(t, "now", {S}), bound.floats<1>(t, "after", {S}),
                               bound.floats<1>(t, "mass", {pairs}), bound.floats<1>(t, "visits", {pairs})}};
        record.episodes = bound.array<const Int, 1>(r, "episodes", {any});
        const Index grid = record.episodes.extent(0);
        record.values = bound.floats<2>(r, "values", {grid, C});
        record.lambda = bound.floats<2>(r, "lam", {grid, m});
        record.lower = bound.floats<2>(r, "lower", {grid, m});
        record.upper = bound.floats<2>(r, "upper", {grid, m});
        record.sums = bound.floats<3>(r, "sums", {grid, 2, C});
        record.written = bound.array<Int, 1>(r, "written", {1});
        const nb::object sums = nb::getattr(metering, "sums");
        const auto totals = bound.floats<2>(sums, "totals", {any, 2 + 4 * m});
        const Metering watched{nb::cast<bool>(nb::getattr(metering, "checked")),
                               meter.core,
                               bound.reads<1>(metering, "levels", {2 + 2 * m}),
                               bound.floats<2>(metering, "rows", {grid, 2 + 2 * m}),
                               totals,
                               bound.array<bool, 1>(sums, "moved", {totals.extent(0) + 1})};
        core = std::make_unique<Loop<Spot<Window>>>(
            known, play, tracker, record, nb::cast<bool>(nb::getattr(watching, "every")), watched, *spot.core);
    }
    Index play(Index first, Index last) {
        require(0 <= first && first <= last && last <= noise.start.extent(0),
                "first and last must lie within the noise.");
        spot.check();
        meter.check();
        require(0 <= record.written[0] && record.written[0] <= record.episodes.extent(0),
                "the record has more rows than room.");
        const InUse now(spot.in_use);
        const nb::gil_scoped_release released;
        return safespot::play(*core, first, last, spot.level);
    }
};

// A sequence's functions of row r among rows [., width] of its states.
template <class Sequence>
class RowClass : public nb::class_<Sequence> {
public:
    RowClass(nb::module_& m, const char* name) : nb::class_<Sequence>(m, name) {
        this->def_ro_static("width", &Sequence::width);
        method("reset", &Sequence::reset);
    }
    template <class Result, class... Arguments, class... Names>
    RowClass& method(const char* name, Result (Sequence::*function)(Arguments...) const, Names... names) {
        this->def_static(
            name,
            [function](nb::handle rows, Index r, Arguments... arguments) {
                const auto all = as_view<double, 2>(rows, "rows", {any, Sequence::width});
                require(0 <= r && r < all.extent(0), "r must be one of the rows.");
                return (Sequence(all[r]).*function)(arguments...);
            },
            "rows"_a, "r"_a, names...);
        return *this;
    }
};

void bind_sequences(nb::module_& m) {
    RowClass<ChangingMeans>(m, "ChangingMeans")
        .method("observe", &ChangingMeans::observe, "x"_a)
        .method("bound", &ChangingMeans::bound, "level"_a);
    nb::class_<Targets>(m, "Targets").def(nb::init<double, double>(), "planned"_a, "factors"_a = 1.0);
    RowClass<FixedMean>(m, "FixedMean")
        .method("observe", &FixedMean::observe, "targets"_a, "x"_a)
        .method("read", &FixedMean::read, "targets"_a, "level"_a)
        .method("read_when_due", &FixedMean::read_when_due, "targets"_a, "level"_a);
    RowClass<WindowSum>(m, "WindowSum")
        .method("move", &WindowSum::move, "x"_a, "y"_a, "sign"_a = 1.0)
        .method("bound", &WindowSum::bound, "level"_a);
    RowClass<SampleMean>(m, "SampleMean")
        .method("observe", &SampleMean::observe, "n"_a, "s"_a)
        .method("bound", &SampleMean::bound, "H"_a, "level"_a);
    RowClass<Bets>(m, "Bets").method("observe", &Bets::observe, "fresh"_a, "mu"_a, "x"_a);
}

}  // namespace

NB_MODULE(_core, m) {
    m.doc() = "What runs in every episode, compiled.";
    m.attr("sources") = SAFESPOT_SOURCES;
    std::vector<std::string> names(levels().begin(), levels().end());
    m.attr("levels") = nb::tuple(nb::cast(names));

    nb::class_<PyStatistics>(m, "Statistics")
        .def(nb::init<nb::handle, nb::handle>(), "record"_a, "pooling"_a = nb::none())
        .def("observe", &PyStatistics::observe, "episode"_a)
        .def_prop_ro("has_room", [](const PyStatistics& s) { return s.core.has_room(); });
    nb::class_<PyWindow>(m, "Window")
        .def(nb::init<nb::handle>(), "record"_a)
        .def("bounds", &PyWindow::bounds, "radii"_a, "lower"_a, "upper"_a)
        .def_prop_ro("has_room", [](const PyWindow& w) { return w.core.has_room(); });
    nb::class_<PySpot>(m, "Spot")
        .def(nb::init<nb::handle, nb::handle, const PyStatistics&, const PyWindow&, const std::string&>(), "rates"_a,
             "state"_a, "statistics"_a, "window"_a, "level"_a = "", nb::keep_alive<1, 4>(), nb::keep_alive<1, 5>())
        .def("observe", &PySpot::observe, "episode"_a)
        .def("derive", &PySpot::derive)
        .def("evaluate", &PySpot::evaluate, "pi"_a, "lam"_a, "Q"_a, "V"_a)
        .def_prop_ro("has_room", [](const PySpot& s) { return s.core->has_room(); });
    nb::class_<PyMeter>(m, "Meter")
        .def(nb::init<nb::handle, nb::handle>(), "declared"_a, "state"_a)
        .def("observe", &PyMeter::observe, "rewards"_a, "constraints"_a, "thresholds"_a)
        .def("read", &PyMeter::read, "levels"_a, "lower"_a);
    nb::class_<PyTruth>(m, "Truth")
        .def(nb::init<nb::handle, nb::handle>(), "model"_a, "laws"_a)
        .def("play", &PyTruth::play, "alpha"_a, "noise"_a, "n"_a, "pi"_a, "played"_a)
        .def("step", &PyTruth::step, "alpha"_a, "noise"_a, "n"_a, "h"_a, "pair"_a, "played"_a)
        .def("values", &PyTruth::values, "pi"_a, "out"_a);
    nb::class_<PyLoop>(m, "Loop")
        .def(nb::init<const PyTruth&, nb::handle, nb::handle, nb::handle, nb::handle, const PyMeter&, PySpot&>(),
             "truth"_a, "units"_a, "playing"_a, "watching"_a, "metering"_a, "meter"_a, "spot"_a, nb::keep_alive<1, 2>(),
             nb::keep_alive<1, 7>(), nb::keep_alive<1, 8>())
        .def("play", &PyLoop::play, "first"_a, "last"_a);
    m.def(
        "softmax",
        [](nb::handle logits, nb::handle pi) {
            const auto rows = as_view<double, 2>(logits, "logits", {any, any});
            const auto out = as_view<double, 2>(pi, "pi", {rows.extent(0), rows.extent(1)});
            require(!rows.empty(), "logits must have rows and entries.");
            std::vector<double> x(rows.size() + 3);
            softmax(rows.flat(), out.flat(), rows.extent(1), Floats<1>(x.data(), {rows.size() + 3}));
        },
        "logits"_a, "pi"_a);
    m.def("exponentials", [](nb::handle x) { exponentials(as_view<double, 1>(x, "x", {any})); }, "x"_a);
    bind_sequences(m);
}
