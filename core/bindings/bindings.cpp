// What Python sees of the core: records of arrays are checked, bound once and kept alive.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <memory>

#include "epochs.hpp"
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

// NumPy's type, looked up once: it lives as long as the process.
nb::handle ndarray_type() {
    static const nb::handle type = nb::object(nb::module_::import_("numpy").attr("ndarray")).release();
    return type;
}

// An array of Python's as a view; raises where it is not what the core can work on. An extent of
// `any` is filled in.
template <class T, int Rank>
View<T, Rank> as_view(nb::handle array, const std::string& name, std::array<Index, Rank> shape) {
    nb::ndarray<T, nb::ndim<Rank>, nb::c_contig, nb::device::cpu> view;
    const bool numpy = nb::isinstance(array, ndarray_type());
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

// Keeps arrays alive for the time of a call; or for good, and weakly referenced, so that nobody can resize them.
struct Kept {
    bool for_good = true;
    std::vector<nb::object> objects;
};

// A record's fields: an array becomes the view that it is assigned to, a number what it is.
class Fields {
public:
    Fields(nb::handle record, Kept& kept) : record_(nb::borrow(record)), kept_(kept) {}

    template <class... Extents>
    auto operator()(const char* name, Extents... extents) const {
        return Array<sizeof...(Extents)>{nb::getattr(record_, name), name, {extents...}, kept_};
    }
    Fields in(const char* name) const { return {nb::getattr(record_, name), kept_}; }
    template <class T = double>
    T get(const char* name) const {
        return nb::cast<T>(nb::getattr(record_, name));
    }

private:
    template <int Rank>
    struct Array {
        nb::object value;
        const char* name;
        std::array<Index, Rank> shape;
        Kept& kept;

        template <class T>
        operator View<T, Rank>() const {
            kept.objects.push_back(value);
            if (kept.for_good) kept.objects.push_back(nb::weakref(value));
            return as_view<T, Rank>(value, name, shape);
        }
    };
    nb::object record_;
    Kept& kept_;
};

Radii as_radii(nb::handle record) {
    Kept none;
    const Fields r(record, none);
    return Radii(r.get("L_r"), r.get("L_p"), r.get("L_b"), r.get("H"), r.get("S"), r.get("bonus_scale"),
                 r.get("threshold_scale"), r.get<bool>("bernstein"), r.get<bool>("clip"));
}

// One episode's arrays, for the time of a call.
Episode as_episode(nb::handle record, const Statistics& s, Kept& kept) {
    const Fields f(record, kept);
    const Index H = s.H(), S = s.S(), A = s.A(), m = s.components() - 1;
    const Episode e{f("states", H + 1), f("pairs", H), f("rewards", H), f("constraints", H, m), f("thresholds", H, m)};
    for (Index h = 0; h <= H; ++h) {
        const bool state = 0 <= e.states[h] && e.states[h] < S;
        const bool fits = state && (h == H || (e.states[h] * A <= e.pairs[h] && e.pairs[h] < (e.states[h] + 1) * A));
        require(fits, "states and pairs must lie within the problem, and pairs be s*A + a.");
    }
    return e;
}

// While a thread works on an object, no other does.
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
    Kept kept;
    Statistics core;

    PyStatistics(nb::handle record, nb::handle pooling) {
        const Fields r(record, kept), lists = r.in("successors");
        Statistics& c = core;
        c.starts = r("starts", any);
        c.n = r("n", any, any);
        const Index H = c.n.extent(0), S = c.S(), pairs = c.n.extent(1);
        require(H > 0 && S > 0 && pairs > 0 && pairs % S == 0, "n must be [H, S*A], none of them 0.");
        c.sums = r("sums", any, H, pairs);
        require(c.components() > 1, "sums must have a row for the reward and each constraint.");
        if (!pooling.is_none()) {
            const Fields p(pooling, kept);
            c.pooling = {p("flags", c.components() + 1), p("n", pairs)};
        }
        const Index K = c.pooling.transitions() ? 1 : H;
        c.met = r("met", K, S);
        c.how_many = r("how_many", K);
        c.known = r("known", K, S);
        c.successors.dense = lists("dense", any, any, any);
        if (c.successors.is_dense()) {
            c.successors.dense = lists("dense", K, S, pairs);
        } else {
            const Floats<1> counts = lists("counts", any);
            const Index pool = counts.extent(0);
            c.successors =
                Successors(c.successors.dense, lists("where", K, S), lists("length", K, S), lists("room", K, S),
                           lists("actions", pool), lists("states", pool), counts, lists("used", 1));
        }
        for (const View<Int, 1>& counts : {c.n.flat(), c.starts, c.pooling.n}) {
            const auto fits = [](Int n) { return 0 <= n && n < most; };
            require(std::all_of(counts.data(), counts.data() + counts.size(), fits), "counts must lie within 2^53.");
        }
        check();
    }
    void check() const { require(core.consistent(), "the visit statistics name places that do not exist."); }
    void observe(nb::handle record) const {
        Kept call{.for_good = false, .objects = {}};
        const Episode e = as_episode(record, core, call);
        check();
        require(core.has_room(), "there is no room for one more episode.");
        core.add(e);
    }
};

struct PyWindow {
    Kept kept;
    Window core;

    explicit PyWindow(nb::handle record) {
        const Fields r(record, kept);
        Window& c = core;
        c.n = r("n", any, any);
        const Index H = c.n.extent(0), pairs = c.n.extent(1);
        c.sums = r("sums", any, H, pairs);
        const Index m = c.m();
        require(H > 0 && pairs > 0 && m > 0, "n must be [H, pairs] and sums [m, H, pairs], none of them 0.");
        c.carries = r("carries", m, H, pairs);
        c.pairs = r("pairs", any, H);
        c.samples = r("samples", c.capacity(), H, m);
        c.tree = r("tree", H, any);
        const Index nodes = c.tree.extent(1), leaves = nodes / 2;
        require(leaves > 0 && nodes == 2 * leaves && (leaves & (leaves - 1)) == 0 &&
                    (leaves >= pairs || (leaves == 1 && c.capacity() == 0)),
                "tree must be [H, 2 * leaves] with a power of 2 of leaves, one for each pair.");
        c.span = r("span", 3);
        const ConstFloats<1> gamma = r("gamma", 1);
        c.gamma = gamma[0];
        require(0.0 < c.gamma && c.gamma <= 1.0, "gamma must lie between 0 and 1, 0 excluded.");
        c.rebuild_tree();
        check();
    }
    void check() const { require(core.consistent(), "the window names places that do not exist."); }
    void bounds(nb::handle radii, nb::handle lower, nb::handle upper) const {
        check();
        const Index m = core.m();
        core.bounds(as_radii(radii), as_view<double, 1>(lower, "lower", {m}), as_view<double, 1>(upper, "upper", {m}));
    }
};

struct PySpot {
    Kept kept;
    const PyStatistics& statistics;
    const PyWindow& window;
    Level level;
    std::unique_ptr<Spot<Window>> core;
    std::atomic<bool> in_use = false;

    PySpot(nb::handle rates, nb::handle state, const PyStatistics& statistics, const PyWindow& window,
           const std::string& level)
        : statistics(statistics), window(window), level(as_level(level)) {
        const Fields r(rates, kept), f(state, kept);
        const Statistics& s = statistics.core;
        const Index H = s.H(), S = s.S(), A = s.A(), C = s.components(), m = C - 1, of = window.core.n.extent(1);
        require(window.core.H() == H && window.core.m() == m && (of == 1 || of == S * A),
                "the window must be of the same H, m and pairs.");
        const SpotRates made(as_radii(nb::getattr(rates, "radii")), r.get("eta"), r.get("step"), r.get("xi"),
                             r.get("rho"), r.get<Index>("start"), r.get<bool>("learned"));
        require(0 <= made.start && made.start <= S, "start must be a state, or their number.");
        const Floats<3> logits = f("logits", H, S, A), pi = f("pi", H, S, A);
        const Fields scratch = f.in("scratch");
        core = std::make_unique<Spot<Window>>(
            made,
            SpotState(logits.flat(), pi.flat(), f("lam", m), f("lower", m), f("upper", m), f("finished", 1),
                      scratch("gap", C), scratch("Q", H * S * A)),
            OptimisticModel(f("mask", H, S * A), f("deficit", C, H, S * A), f("weight", H, S * A),
                            f("max_deficit", H, S)),
            s, window.core);
    }
    void check() const {
        statistics.check();
        window.check();
        const Int finished = core->state().finished[0];
        require(0 <= finished && finished < most, "the number of finished episodes must lie within 2^53.");
    }
    int observe(nb::handle record) {
        Kept call{.for_good = false, .objects = {}};
        const Episode e = as_episode(record, statistics.core, call);
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

Declared as_declared(const Fields& d, Index m) {
    const ConstFloats<1> alpha = d("alpha", any);
    require(alpha.empty() || alpha.extent(0) == m, "alpha must be [m], or empty.");
    return Declared(alpha, d("values", 2, m), d("limits", 2, m), d("rounding", m), d("least", m), d("width", m),
                    d("scale", 1 + m));
}

struct PyMeter {
    Kept kept;
    Meter core;
    std::vector<double> x;  // a buffer

    PyMeter(nb::handle declared, nb::handle state) {
        const Fields d(declared, kept), r(state, kept);
        core.means = r("means", any, ChangingMeans::width);
        core.reward = r("reward", 2, WindowSum::width);
        const Index m = this->m();
        require(m > 0 && core.means.extent(0) == 2 * m, "means must have two rows for each constraint.");
        core.declared = as_declared(d, m);
        x.resize(2 + 2 * m);
    }
    Index m() const { return core.means.extent(0) / 2; }
    void check() const {
        const double counted = ChangingMeans(core.means[0]).counted();
        require(0.0 <= counted && counted < static_cast<double>(most), "the meter's count is none.");
    }
    void observe(nb::handle sums) {
        const auto rows = as_view<const double, 2>(sums, "sums", {any, 2 + 4 * m()});
        check();
        const Floats<1> buffer(x.data(), {2 + 2 * m()});
        for (Index k = 0; k < rows.extent(0); ++k) core.observe(rows[k], buffer);
    }
    void read(nb::handle levels, nb::handle lower) const {
        const Index rows = 2 + 2 * m();
        core.read(as_view<const double, 1>(levels, "levels", {rows}), as_view<double, 1>(lower, "lower", {rows}));
    }
};

Targets as_targets(const Fields& record) {
    const ConstFloats<1> rate = record("rate", Targets::K), log_prior = record("log_prior", Targets::K);
    const auto copy = [](ConstFloats<1> row) { return tabulate<Targets::K>([&](Index k) { return row[k]; }); };
    return {copy(rate), copy(log_prior)};
}

struct PyTrial {
    Kept kept;
    std::unique_ptr<Trial> core;
    std::vector<double> x;  // a buffer

    PyTrial(nb::handle rates, nb::handle rows, nb::handle prior) {
        const Fields r(rates, kept), d = r.in("declared"), p(prior, kept);
        const ConstFloats<1> least = d("least", any);
        const Index m = least.extent(0), K = FixedMean::K;
        const auto states = as_view<double, 2>(rows, "rows", {any, FixedMean::width});
        const Index count = states.extent(0);
        require(m > 0 && (count == 2 + 4 * m || count == 2 + 6 * m), "rows must be [2+4m, .] or [2+6m, .].");
        kept.objects.push_back(nb::borrow(rows));
        kept.objects.push_back(nb::weakref(rows));
        const ThresholdPrior before(p("weight", m), p("log_terms", 2 * m, K), p("slopes", 2 * m, K), p("limits", 2, m));
        core = std::make_unique<Trial>(as_declared(d, m), as_targets(r.in("targets")), r.get("kept_level"),
                                       r.get("broken_level"), r.get<bool>("eager"), states, before);
        x.resize(count);
    }
    Index m() const { return core->declared.m(); }
    Int observe(nb::handle sums, Int verdict, nb::handle lower, nb::handle upper) {
        require(0 <= verdict && verdict <= static_cast<Int>(Verdict::issued), "verdict must be one of a trial.");
        const auto row = as_view<const double, 1>(sums, "sums", {2 + 4 * m()});
        const auto low = as_view<const double, 1>(lower, "lower", {m()});
        const auto high = as_view<const double, 1>(upper, "upper", {m()});
        const Floats<1> buffer(x.data(), {static_cast<Index>(x.size())});
        return static_cast<Int>(core->observe(row, static_cast<Verdict>(verdict), low, high, buffer));
    }
};

struct PyBudget {
    Kept kept;
    std::unique_ptr<Budget> core;

    PyBudget(nb::handle declared, nb::handle state, nb::handle most, double level) {
        const Fields d(declared, kept), s(state, kept);
        const ConstFloats<1> least = d("least", any);
        const Index m = least.extent(0);
        const auto caps = as_view<const double, 1>(most, "most", {any});
        require(m > 0 && (caps.empty() || caps.extent(0) == m), "most must be [m], or empty.");
        kept.objects.push_back(nb::borrow(most));
        core = std::make_unique<Budget>(as_declared(d, m), s("means", 2 * m, ChangingMeans::width), s("spent", m), caps,
                                        level);
    }
    void charge(nb::handle x, bool free) const {
        core->charge(as_view<const double, 1>(x, "x", {2 + 2 * core->declared.m()}), free);
    }
};

struct PyHintTotals {
    Kept kept;
    std::unique_ptr<HintTotals> core;

    PyHintTotals(nb::handle rates, nb::handle state) {
        const Fields r(rates, kept), s(state, kept);
        const ConstFloats<2> limits = r("limits", 2, any);
        const Index m = limits.extent(1);
        const auto kind = r.get<Int>("kind");
        require(m > 0 && 0 <= kind && kind <= static_cast<Int>(HintTotals::Kind::window), "kind must be one of them.");
        const auto of = static_cast<HintTotals::Kind>(kind);
        const auto if_any = [&](std::initializer_list<HintTotals::Kind> kinds, Index rows) {
            return std::find(kinds.begin(), kinds.end(), of) == kinds.end() ? 0 : rows;
        };
        using Kind = HintTotals::Kind;
        const Index moving = if_any({Kind::window}, 2 * m);
        core = std::make_unique<HintTotals>(
            of, as_targets(r.in("targets")), r.get("level"), r.get("gamma"), limits,
            s("means", if_any({Kind::episodes, Kind::steps, Kind::samples}, 2 * m), FixedMean::width),
            s("by_step", if_any({Kind::steps}, 2 * m), any), s("samples", if_any({Kind::shared}, m), SampleMean::width),
            s("powers", moving, WindowSum::width), s("ring", any, moving, 2), s("span", 3), s("due", 1),
            s("bounds", 2, m));
        check();
    }
    void check() const {
        const Index capacity = core->ring.extent(0);
        const Int length = core->span[1], oldest = core->span[2];
        require(core->span[0] >= 0 && 0 <= length && 0 <= oldest &&
                    (capacity == 0 || (length <= capacity && oldest < capacity)),
                "the window of hints names places that do not exist.");
    }
    void observe(nb::handle hints, nb::handle lower, nb::handle upper) const {
        const Index m = core->limits.extent(1), H = core->by_step.empty() ? any : core->by_step.extent(1);
        const auto samples = as_view<const double, 2>(hints, "hints", {H, m});
        const auto low = as_view<double, 1>(lower, "lower", {m}), high = as_view<double, 1>(upper, "upper", {m});
        check();
        require(core->has_room(), "there is no room for one more episode.");
        core->observe(samples, low, high);
    }
};

struct PyEpochs {
    Kept kept;
    const PyStatistics& statistics;
    std::unique_ptr<Epochs> core;

    PyEpochs(nb::handle rates, nb::handle state, const PyStatistics& statistics, const PyHintTotals& hints,
             const PyTrial& trial, const PyBudget& exploring)
        : statistics(statistics) {
        const Fields r(rates, kept), f(state, kept);
        const Statistics& s = statistics.core;
        const Index H = s.H(), S = s.S(), A = s.A(), m = s.components() - 1;
        const bool shared = r.get<bool>("shared");
        const Index visits = (shared ? 1 : H) * S * A;
        require(trial.m() == m && exploring.core->declared.m() == m &&
                    trial.x.size() == static_cast<std::size_t>(2 + 4 * m),
                "the trial and the budget must be of the same m, and the trial of 2+4m rows.");
        const Floats<3> pi = f("pi", H, S, A);
        const Floats<2> memory = f("memory", 6, m);
        const EpochState made(pi.flat(), f("lam", m), f("lower", m), f("upper", m), f("finished", 1),
                              Clock{f("clock", 14)}, f("visits", visits), f("planned", visits), memory[5],
                              f("sums", 2 + 4 * m), f("x", 2 + 4 * m));
        const EpochRates constants{shared, r.get<bool>("narrow"), r.get<bool>("learned")};
        core = std::make_unique<Epochs>(constants, made, s, *hints.core, *trial.core, *exploring.core);
    }
    int observe(nb::handle record) const {
        Kept call{false, {}};
        const Episode e = as_episode(record, statistics.core, call);
        statistics.check();
        require(core->has_room(), "there is no room for one more episode.");
        return static_cast<int>(core->observe(e));
    }
};

Noise as_noise(const Fields& r, Index H, Index m) {
    const ConstFloats<1> start = r("start", any);
    const Index n = start.extent(0);
    return Noise(start, r("actions", n, H), r("transitions", n, H), r("rewards", n, H), r("constraints", n, H, m),
                 r("thresholds", n, H, m));
}

Played as_played(const Fields& r, Index H, Index m) {
    return Played(r("states", H + 1), r("pairs", H), r("rewards", H), r("constraints", H, m), r("thresholds", H, m));
}

struct PyTruth {
    Kept kept;
    Model model;
    Laws laws;
    std::vector<double> memory;  // of the exact values

    PyTruth(nb::handle record, nb::handle laws_record) {
        const Fields r(record, kept), rows = r.in("P"), l(laws_record, kept);
        model.payoffs = r("payoffs", any, any, any);
        const Index m = model.components() - 1, K = model.payoffs.extent(1), pairs = model.pairs();
        model.alpha = r("alpha", m, any);
        model.start = r("start", any);
        const Index H = model.H(), S = model.S();
        require(m > 0 && H > 0 && S > 0 && pairs > 0 && pairs % S == 0 && (K == 1 || K == H),
                "payoffs must be [1+m, K, S*A] and alpha [m, H], none of them 0.");
        model.P = Transitions(rows("dense", any, any, any), rows("starts", any, any), rows("successors", any),
                              rows("probabilities", any));
        require(model.P.consistent(H, pairs, S),
                "dense transitions must be [K, S*A, S], sparse transitions rows [K, S*A + 1] of entries in order.");
        const View<const Int, 1> codes = l("codes", 3);
        const ConstFloats<1> parameters = l("parameters", 3);
        const auto law = [&](Index k) { return Law{codes[k], parameters[k]}; };
        laws = {law(0), law(1), law(2), l("outcomes", any, any, any)};
        const ConstFloats<3>& o = laws.outcomes;
        require(o.empty() || (o.extent(0) == m && o.extent(1) == pairs && o.extent(2) == S),
                "outcomes must be [m, S*A, S], or empty.");
        memory.resize(2 * S + 2 * pairs);
    }
    ConstFloats<1> policy(nb::handle pi) const {
        return as_view<const double, 3>(pi, "pi", {model.H(), model.S(), model.A()}).flat();
    }
    // work(alpha, noise, played) for episode n of the noise.
    template <class Work>
    auto with_episode(nb::handle alpha, nb::handle noise, Index n, nb::handle played, const Work& work) const {
        const Index H = model.H(), m = model.components() - 1;
        Kept call{.for_good = false, .objects = {}};
        const Noise numbers = as_noise(Fields(noise, call), H, m);
        require(0 <= n && n < numbers.start.extent(0), "n must be one of the noise's episodes.");
        const auto limits = as_view<const double, 2>(alpha, "alpha", {m, H});
        return work(limits, numbers, as_played(Fields(played, call), H, m));
    }
    void play(nb::handle alpha, nb::handle noise, Index n, nb::handle pi, nb::handle played) const {
        with_episode(alpha, noise, n, played, [&](const auto& limits, const Noise& numbers, const Played& out) {
            safespot::play(model, laws, limits, numbers, n, policy(pi), out);
        });
    }
    Index step(nb::handle alpha, nb::handle noise, Index n, Index h, Index pair, nb::handle played) const {
        require(0 <= h && h < model.H() && 0 <= pair && pair < model.pairs(), "h and pair must lie within the model.");
        return with_episode(alpha, noise, n, played, [&](const auto& limits, const Noise& numbers, const Played& out) {
            return play_step(model, laws, limits, numbers, n, h, pair, out);
        });
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
    Kept kept;
    PySpot& spot;
    const PyMeter& meter;
    Index episodes;  // of the noise
    Record record;
    std::unique_ptr<Loop<Spot<Window>>> core;

    PyLoop(const PyTruth& truth, nb::handle units, nb::handle playing, nb::handle watching, nb::handle metering,
           const PyMeter& meter, PySpot& spot)
        : spot(spot), meter(meter) {
        const Fields u(units, kept), p(playing, kept), w(watching, kept), g(metering, kept);
        const Fields played = p.in("played"), t = w.in("tracker"), r = w.in("record"), sums = g.in("sums");
        const Model& model = truth.model;
        const Statistics& s = spot.statistics.core;
        const Index H = model.H(), S = model.S(), pairs = model.pairs(), C = model.components(), m = C - 1;
        require(s.H() == H && s.S() == S && s.n.extent(1) == pairs && s.components() == C && meter.m() == m,
                "the problem, the learner and the meter must be of the same S, A, H and m.");
        const Truth known(model, truth.laws, u("target", m, H), u("offsets", C), u("scales", C), u.get<bool>("scaled"));
        const Noise noise = as_noise(p.in("noise"), H, m);
        const Index n = episodes = noise.start.extent(0);
        const Playing play(noise, p("progress", n), p("optima", n), as_played(played, H, m), played("alpha", m, H),
                           played("progress", 1));
        const Occupancy occupancy{t("now", S), t("after", S), t("mass", pairs), t("visits", pairs)};
        const Tracker tracker(t("values", C), t("limits", m), t("totals", 2, C), t("last", 2), t("before", C),
                              t("limits_before", m), occupancy);
        const View<const Int, 1> grid = r("episodes", any);
        const Index rows = grid.extent(0);
        record = Record(grid, r("values", rows, C), r("lam", rows, m), r("lower", rows, m), r("upper", rows, m),
                        r("sums", rows, 2, C), r("written", 1));
        const Floats<2> totals = sums("totals", any, 2 + 4 * m);
        const Metering watched(g.get<bool>("checked"), meter.core, g("levels", 2 + 2 * m), g("row", 2 + 4 * m),
                               g("x", 2 + 2 * m), g("rows", rows, 2 + 2 * m), totals,
                               sums("moved", totals.extent(0) + 1));
        core = std::make_unique<Loop<Spot<Window>>>(known, play, tracker, record, w.get<bool>("every"), watched,
                                                    *spot.core);
    }
    Index play(Index first, Index last) {
        require(0 <= first && first <= last && last <= episodes, "first and last must lie within the noise.");
        spot.check();
        meter.check();
        const Int written = record.written[0];
        require(0 <= written && written <= record.episodes.extent(0), "the record has more rows than room.");
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
        this->attr("width") = Sequence::width;
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
        .def("observe", &PyMeter::observe, "sums"_a)
        .def("read", &PyMeter::read, "levels"_a, "lower"_a);
    nb::class_<PyTrial>(m, "Trial")
        .def(nb::init<nb::handle, nb::handle, nb::handle>(), "rates"_a, "rows"_a, "prior"_a)
        .def("observe", &PyTrial::observe, "sums"_a, "verdict"_a, "lower"_a, "upper"_a);
    nb::class_<PyBudget>(m, "Budget")
        .def(nb::init<nb::handle, nb::handle, nb::handle, double>(), "declared"_a, "state"_a, "most"_a, "level"_a)
        .def("charge", &PyBudget::charge, "x"_a, "free"_a)
        .def_prop_ro("fits", [](const PyBudget& b) { return b.core->fits(); });
    nb::class_<PyHintTotals>(m, "HintTotals")
        .def(nb::init<nb::handle, nb::handle>(), "rates"_a, "state"_a)
        .def("observe", &PyHintTotals::observe, "hints"_a, "lower"_a, "upper"_a)
        .def_prop_ro("has_room", [](const PyHintTotals& h) { return h.core->has_room(); });
    nb::class_<PyEpochs>(m, "Epochs")
        .def(nb::init<nb::handle, nb::handle, const PyStatistics&, const PyHintTotals&, const PyTrial&,
                      const PyBudget&>(),
             "rates"_a, "state"_a, "statistics"_a, "hints"_a, "trial"_a, "exploring"_a, nb::keep_alive<1, 4>(),
             nb::keep_alive<1, 5>(), nb::keep_alive<1, 6>(), nb::keep_alive<1, 7>())
        .def("observe", &PyEpochs::observe, "episode"_a);
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
