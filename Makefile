# Two commands do all the set-up: `make demo` runs the main job, `make test` runs every check.
# Both need only Python 3.11+, git and make; everything else goes into a local virtual environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo test lint types imports unit wheel lock clean

demo: $(INSTALLED)
	$(BIN)/autotune demo

test: lint types imports unit

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED)
	$(BIN)/mypy

imports: $(INSTALLED)
	$(BIN)/lint-imports

unit: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile -m 'not alone'
	OMP_NUM_THREADS=1 $(BIN)/pytest -m alone

wheel: $(INSTALLED)
	$(BIN)/python -m build --wheel

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "expected Python 3.11 or newer, found $$($(PYTHON) --version); set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

# Pins what a fresh environment resolves to today; torch stays at the release that was tested.
lock:
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0 '.[dev]'
	$(VENV)-lock/bin/python -m pip freeze --exclude autotune-inference | sed 's/+cpu$$//' > constraints.txt
	rm -rf $(VENV)-lock

clean:
	rm -rf $(VENV) dist build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
