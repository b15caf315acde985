# Everything a developer types. A fresh machine needs Python 3.11 and make; the rest goes into .venv.
PYTHON  ?= python3
ARGS    ?=
PORT    ?= 8420
WORKERS ?= 2
BIN     := .venv/bin
RUN     := .venv/ready-to-run
DEV     := .venv/ready-to-develop
PIP      = $(BIN)/pip install --quiet --disable-pip-version-check
PYTEST   = $(BIN)/pytest -n $(WORKERS) --dist worksteal

# Some images switch compiled files off. The tests start our programs hundreds of times, and compiling them each time
# takes longer than what they do.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help run demo quick test test-all rest lint bench torture mix growth fuzz conformance page docs clean

help:  ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(RUN)  ## serve memory over HTTP and MCP, with a page, on PORT (8420)
	@echo "Starting limpet serve on port $(PORT)"
	@$(BIN)/limpet serve --port $(PORT) $(ARGS)

demo: $(RUN)  ## show Limpet at work on a sample conversation
	@echo "Starting limpet demo"
	@$(BIN)/limpet demo $(ARGS)

quick: $(DEV)  ## units, and the contract of the store in memory: a minute
	LIMPET_TEST_EXAMPLES=0.2 $(PYTEST) --level quick tests/test_architecture.py tests/test_public_names.py tests/unit tests/contract $(ARGS)

test: lint quick  ## lint, quick, and the rest that every change needs: seven minutes
	LIMPET_TEST_EXAMPLES=0.2 $(PYTEST) --level test $(ARGS)

test-all: test rest  ## all of it: every backend, crashes, and properties with more examples

rest: $(DEV)
	LIMPET_TEST_EXAMPLES=2 $(PYTEST) --level rest $(ARGS)

lint: $(DEV)  ## style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(DEV)  ## measure speed
	$(BIN)/limpet bench speed $(ARGS)

torture: $(DEV)  ## kill it while it writes, and look for what was lost
	$(BIN)/python -m tests.crash.torture $(ARGS)

mix: $(DEV)  ## ten processes on one store with all operations mixed, for half an hour
	$(BIN)/python -m tests.crash.mix $(ARGS)

growth: $(DEV)  ## texts of 10 kB to 1 MB at every entry point: does the work grow in proportion?
	$(BIN)/python -m tests.growth $(ARGS)

fuzz: $(DEV)  ## requests made up from the API's own description; takes a minute or two
	@$(PIP) -e '.[dev-http]'
	$(BIN)/python -m tests.conformance.http $(ARGS)

conformance: $(DEV)  ## the MCP project's own checks against our server; needs npm
	$(BIN)/python -m tests.conformance.run $(ARGS)

page: $(DEV)  ## look at the page in a real browser; needs Chromium
	@$(PIP) -e '.[dev-page]'
	$(BIN)/python -m tests.browser.check $(ARGS)

docs: $(DEV)  ## generate the reference pages
	$(BIN)/python docs/generate.py $(ARGS)

clean:  ## remove all that was generated
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUN): pyproject.toml | $(BIN)/pip
	@echo "Installing Limpet with its server into .venv"
	@$(PIP) -e '.[serve]'
	@touch $@

$(DEV): pyproject.toml bench/pyproject.toml | $(BIN)/pip
	@echo "Installing Limpet, every extra and the tools of its developers into .venv"
	@$(PIP) -e '.[dev]' -e bench
	@touch $@ $(RUN)

$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Limpet needs Python 3.11 or newer: make $(MAKECMDGOALS) PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || $(INSTALL_VENV)
	@echo "Creating .venv with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv --clear .venv

# Debian ships Python without venv; root can put that right.
INSTALL_VENV = { test "$$(id -u)" = 0 && apt-get -qq update && apt-get -qq install -y python3-venv >/dev/null; } \
	|| { echo "Python's venv is missing: install your system's python3-venv package" >&2; exit 1; }
