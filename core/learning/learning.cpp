// What learns compiles without a path to the truth.
#include "counting.hpp"
#include "epochs.hpp"
#include "guard.hpp"
#include "hint_totals.hpp"
#include "meter.hpp"
#include "spot.hpp"
#include "window.hpp"

namespace safespot {

template class Spot<Window>;
template class Spot<HintTotals>;
template class Counting<Window>;
template class Counting<HintTotals>;
template class Guard<Spot<Window>>;
template class Guard<Epochs>;

}  // namespace safespot
