# make demo and make test do all the set-up on a fresh machine (Python >= 3.11).
PYTHON ?= python3
BIN := .venv/bin
export OPENBLAS_NUM_THREADS ?= 1
export OMP_NUM_THREADS ?= 1

.PHONY: demo test test-all serve docs lint clean bench-peers

.venv/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: .venv/installed
	$(BIN)/lhb demo

serve: .venv/installed
	$(BIN)/lhb serve

# the site, in out/site; warnings are errors
docs: .venv/installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# three processes on two cores: much of a test's time is waiting for servers that it started
WORKERS ?= 3
PYTEST := $(BIN)/pytest -n $(WORKERS) --dist worksteal --durations=25

test: lint
	$(PYTEST) -m "not slow"

# the tests of `test`, then those that take long
test-all: test
	$(PYTEST) -m slow

# the solver's rivals in an environment of their own: adelie needs numpy < 2, skglm compiles
bench-peers:
	test -x .venv-peers/bin/python || $(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check \
		'numpy<2' 'adelie==1.1.52' 'celer==0.7.4' 'skglm==0.5'

clean:
	rm -rf .venv build out *.egg-info
