// The same code for several levels of vector instructions, with the same bits.
//
// A task is flattened: all that it calls becomes part of it, with its level's instructions. What
// files share stays at the baseline, so that no wide instruction gets where none is allowed.
#pragma once

#include <array>
#include <span>

namespace safespot {

enum class Level { baseline, v3, v4 };
inline constexpr std::array<const char*, 3> level_names = {"baseline", "x86-64-v3", "x86-64-v4"};

// Those that this machine has.
inline std::span<const char* const> levels() {
    const bool v3 = __builtin_cpu_supports("x86-64-v3"), v4 = __builtin_cpu_supports("x86-64-v4");
    return std::span(level_names).first(v4 ? 3 : v3 ? 2 : 1);
}

template <class Task>
[[gnu::flatten]] auto run(const Task& task) {
    return task();
}
template <class Task>
[[gnu::flatten, gnu::target("arch=x86-64-v3")]] auto run_v3(const Task& task) {
    return task();
}
template <class Task>
[[gnu::flatten, gnu::target("arch=x86-64-v4")]] auto run_v4(const Task& task) {
    return task();
}

template <class Task>
auto run_at(Level level, const Task& task) {
    switch (level) {
        case Level::v4: return run_v4(task);
        case Level::v3: return run_v3(task);
        default: return run(task);
    }
}

}  // namespace safespot
