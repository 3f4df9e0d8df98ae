"""Side-by-side measurements; `python -m studies.speed` runs them all."""
