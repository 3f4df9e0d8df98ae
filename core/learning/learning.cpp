// What learns compiles without a path to the truth.
#include "epochs.hpp"
#include "hint_totals.hpp"
#include "meter.hpp"
#include "spot.hpp"
#include "window.hpp"

template class safespot::Spot<safespot::Window>;
