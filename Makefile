# Everything a developer types. A fresh machine needs Python 3.11 and make; the rest goes into .venv.
PYTHON ?= python3
ARGS   ?=
PORT   ?= 8420
BIN    := .venv/bin
READY  := .venv/ready

.PHONY: help run demo test lint bench torture fuzz conformance page docs clean

help:  ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(READY)  ## serve memory over HTTP and MCP, with a page, on PORT (8420)
	$(BIN)/limpet serve --port $(PORT) $(ARGS)

demo: $(READY)  ## show Limpet at work on a sample conversation
	$(BIN)/limpet demo $(ARGS)

test: lint  ## lint, then every test
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

lint: $(READY)  ## style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)  ## measure speed
	$(BIN)/limpet bench speed $(ARGS)

torture: $(READY)  ## kill it while it writes, and look for what was lost
	$(BIN)/python -m tests.crash.torture $(ARGS)

fuzz: $(READY)  ## requests made up from the API's own description; takes a minute or two
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev-http]'
	$(BIN)/python -m tests.conformance.http $(ARGS)

conformance: $(READY)  ## the MCP project's own checks against our server; needs npm
	$(BIN)/python -m tests.conformance.run $(ARGS)

page: $(READY)  ## look at the page in a real browser; needs Chromium
	@$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev-page]'
	$(BIN)/python -m tests.browser.check $(ARGS)

docs: $(READY)  ## generate the reference pages
	$(BIN)/python docs/generate.py $(ARGS)

clean:  ## remove all that was generated
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || $(INSTALL_VENV)
	@test -x $(BIN)/pip || $(PYTHON) -m venv --clear .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]' -e bench
	@touch $@

# Debian ships Python without venv; root can put that right.
INSTALL_VENV = { test "$$(id -u)" = 0 && apt-get -qq update && apt-get -qq install -y python3-venv >/dev/null; } \
	|| { echo "Python's venv is missing: install your system's python3-venv package" >&2; exit 1; }
