#include "loop.hpp"

namespace safespot {

template <class Learner>
Answer observe(Learner& learner, const Episode& episode, Level level) {
    return run_at(level, [&] { return learner.observe(episode); });
}

template <class Learner>
Index play(Loop<Learner>& loop, Index first, Index last, Level level) {
    return run_at(level, [&] { return loop.play(first, last); });
}

template Answer observe(Spot<Window>&, const Episode&, Level);
template Index play(Loop<Spot<Window>>&, Index, Index, Level);

}  // namespace safespot
