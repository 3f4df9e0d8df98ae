// What learns compiles without a path to the truth.
#include "meter.hpp"
#include "spot.hpp"
#include "window.hpp"

template class safespot::Spot<safespot::Window>;
