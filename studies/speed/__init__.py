"""Side-by-side measurements; `python -m studies` runs them all."""
