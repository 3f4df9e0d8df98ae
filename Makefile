# `make demo` and `make test` do all the set-up themselves: Python 3.11 or newer, pip and make are enough.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow test-sanitizers test-bounds test-matrix test-reliability test-mutants check format verify bench docs vega clean

# A chemotherapy whose tolerance nobody knows: learned under three stances, and with the tolerance known, beside SPOT.
demo: .venv/ready
	$(BIN)/safespot run dosing --stance pessimistic --stance 0.5 --stance optimistic --episodes 20k --seeds 2 --out results/demo

test: check
	$(BIN)/python -m pytest -n 2 -m "not slow"

test-slow: .venv/ready
	$(BIN)/python -m pytest -n 2 -m slow

# The core's tests with every index of a view checked, under AddressSanitizer and UBSan.
test-sanitizers: .venv/ready
	$(BIN)/cmake -S core -B build/sanitizers -G Ninja -DSAFESPOT_DEBUG=ON -DCMAKE_BUILD_TYPE=Debug \
	  -DPython_EXECUTABLE=$(abspath $(BIN)/python) -Dnanobind_ROOT=$$($(BIN)/python -m nanobind --cmake_dir)
	$(BIN)/cmake --build build/sanitizers
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0 \
	  SAFESPOT_CORE=$$(ls build/sanitizers/_core*.so) $(BIN)/python -m pytest tests/core -q

# Once with every array index checked: Numba does not do it by default.
test-bounds: .venv/ready
	NUMBA_BOUNDSCHECK=1 $(BIN)/python -m pytest -n 2 -m "not slow"

# A fast part with the lowest declared and the newest versions, on each Python that is here; JOBS="lowest-3.11" names some.
test-matrix: .venv/ready
	$(BIN)/python -m tests.support.matrix $(JOBS)

# Damaged files, nonsense, kills, power failures, long runs: in full, and their figures go into docs/reliability.md.
test-reliability: .venv/ready
	$(BIN)/python -m tests.reliability --write

# Single changes of the code, and which of them no test notices; ROOMS="storage data" names some, SAMPLE says how many.
test-mutants: .venv/ready
	$(BIN)/python -m tests.support.mutants $(ROOMS) --sample $(or $(SAMPLE),100)

check: .venv/ready
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/ready
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# The claims, judged by experiments: about an hour; SIZE=quick takes two minutes.
verify: .venv/ready
	$(BIN)/python -m studies.claims --size $(or $(SIZE),full)

bench: .venv/ready
	$(BIN)/python -m studies.speed

# The site, into site/: open site/index.html.
docs: .venv/ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The Vega that the report's page brings along, from the wheel of vl-convert.
vega: .venv/ready
	$(BIN)/python -m tests.support.vega

clean:
	rm -rf .venv .matrix dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

# Where venv cannot bring pip along (Debian without python3-venv), the machine's own pip installs it.
.venv/ready: pyproject.toml constraints.txt $(shell find core -type f -not -path '*/__pycache__/*')
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "safespot needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv || { $(PYTHON) -m venv --clear --without-pip .venv && \
	  $(PYTHON) -m pip --python $(BIN)/python install --quiet pip; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@
