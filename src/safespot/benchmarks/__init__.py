"""Side-by-side measurements; `python -m safespot.benchmarks` runs them all."""
