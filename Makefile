# What a newcomer and CI type. Python 3.11 or newer and a package index are all that is needed.
#
#   PYTHON=python3.12 make setup     another Python
#   PYTEST_ARGS="-k beam -x" make test-fast

PYTHON ?= python3
PYTEST_ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := $(PIP) install --quiet -c constraints.txt -e

.DEFAULT_GOAL := help
.PHONY: help setup demo page test test-fast check lint types walls spelling format bench clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# --- The environment: each step leaves a stamp, so that it is done once per change of pyproject ---

$(VENV)/.made:
	@command -v $(PYTHON) >/dev/null || { \
	  echo "transduce needs Python 3.11 or newer, and there is no $(PYTHON) here;" \
	    "install one, or name it: make PYTHON=/path/to/python3 setup" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "transduce needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1);" \
	    "install a newer one, or name it: make PYTHON=python3.12 setup" >&2; exit 1; }
	@$(PIP) --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV) || { \
	  echo "$(PYTHON) cannot make a virtual environment; on Debian and Ubuntu:" \
	    "apt-get install python3-venv" >&2; exit 1; }
	@$(PIP) install --quiet --upgrade pip
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/.made
	@echo "installing transduce with what its tests need into $(VENV) ..."
	@$(INSTALL) '.[dev]'
	@touch $@

$(VENV)/.demo: pyproject.toml constraints.txt | $(VENV)/.made
	@if [ $(VENV)/.dev -nt pyproject.toml ] && [ $(VENV)/.dev -nt constraints.txt ]; then :; else \
	  echo "installing transduce into $(VENV) ..."; $(INSTALL) '.[train,serve]'; fi
	@touch $@

setup: $(VENV)/.dev  ## make .venv with everything for development

demo: $(VENV)/.demo  ## train a real translator from real text, in minutes on two cores
	$(BIN)/transduce quickstart

page: $(VENV)/.dev  ## build the page's sources in page/ into the package, if they changed
	@$(BIN)/python hatch_build.py

# --- Tests and linters ----------------------------------------------------------------------------

# Two processes of one thread each, a file at a time: tests are many and small.
test: check  ## linters, then every test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile $(PYTEST_ARGS)

test-fast: $(VENV)/.dev  ## the tests that take seconds
	$(BIN)/python -m pytest -m "not slow" $(PYTEST_ARGS)

check: lint types walls spelling  ## linters only: ruff, mypy, import-linter, codespell

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

walls: $(VENV)/.dev
	$(BIN)/lint-imports

spelling: $(VENV)/.dev
	$(BIN)/codespell

format: $(VENV)/.dev  ## let ruff mend and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench:  ## how to run the benchmarks
	@echo "Benchmarks are run by hand, on a quiet machine, and write one dated JSON line each:"
	@ls benchmarks/*.py benchmarks/*/*.py 2>/dev/null | sed 's|^|  $(BIN)/python |' || true
	@echo "benchmarks/README.md says what each measures and against whom."

clean:  ## remove caches and build output; .venv and runs stay
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks examples -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
