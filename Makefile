# Everything sets itself up: on a fresh machine `make demo` or `make test` is the first and only command.

PYTHON ?= python3
VENV ?= .venv
TESTS ?= not slow
PYTEST_ARGS ?= -n auto --dist loadgroup

BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo test check check-format check-lint check-types check-drift clean

demo: $(INSTALLED)  ## build swish, check its gradient, run it beside torch's
	$(BIN)/gradgen build formulas/swish.py
	$(BIN)/python examples/demo.py

test: $(INSTALLED)  ## the everyday suite; all that CI may run by `make test TESTS='not sample'`
	$(BIN)/pytest -m "$(TESTS)" $(PYTEST_ARGS)

check: check-format check-lint check-types check-drift  ## all that can be checked without running

check-format: $(INSTALLED)
	$(BIN)/ruff format --check .

check-lint: $(INSTALLED)
	$(BIN)/ruff check .

check-types: $(INSTALLED)
	$(BIN)/mypy

check-drift: $(INSTALLED)
	$(BIN)/gradgen check

clean:  ## the environment and all caches; nothing that git keeps
	rm -rf $(VENV) dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

# Done once, and again when what is to be installed changed; an install that failed leaves no stamp.
$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@
