# `make demo` and `make test` work in a fresh clone with Python 3.11 (or later) and make.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.SUFFIXES:

VENV ?= .venv
PYTHON ?=
SECONDS ?= 600
FIRST ?= 0
CLIENTS ?= 8
SHARED ?= $(if $(wildcard /dev/nvidia0),--clients-per-gpu $(CLIENTS))
candidates := $(if $(PYTHON),$(PYTHON),python3.11 python3.12 python3.13 python3 python)
usable := import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))
python := $(VENV)/bin/python

# Which packages arrive is progress; the rest of what pip says is left out (its errors are not).
# Python compiles what is imported; compiling all of every package would take more than the rest.
install := PYTHONUNBUFFERED=1 $(python) -m pip install --no-compile --disable-pip-version-check --editable
progress := awk '/^ *(Collecting|Downloading|Building|Installing|Successfully)/ { print; fflush() }'

.PHONY: help demo test test-all check bench fuzz several docs test-accelerators accelerators clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-17s %s\n", $$1, $$2 }' Makefile
	@echo "PYTHON=/path/to/python chooses the interpreter, VENV=folder the environment ($(VENV))."

demo: $(VENV)/demo.stamp ## set up, then train a small GPT on 8 virtual devices
	$(python) examples/train_gpt.py

test: $(VENV)/test.stamp ## set up, then run every check and test; of long sweeps some cases
	PYTHON=$(python) tools/check.sh

test-all: $(VENV)/test.stamp ## the same with all cases and the long tests: two to three times as long
	PYTHON=$(python) tools/check.sh lint format imports types whole lit

check: test ## the same as test

bench: $(VENV)/bench.stamp ## set up, then compare with jax.jit: a table, build/bench/results.json and chart.svg
	$(python) -m benchmarks.against_jax

fuzz: $(VENV)/test.stamp ## random programs against one device, for SECONDS=600; those that differ are made small
	$(python) -m tests.py.fuzz --seconds $(SECONDS) --first $(FIRST)

several: $(VENV)/test.stamp ## forms, models and random programs on CLIENTS=8 processes, which may share a GPU
	$(python) -m dtensor.tools.dtensor_launch -n $(CLIENTS) $(SHARED) -m tests.py.several --seconds $(SECONDS)

docs: $(VENV)/test.stamp ## set up, then build the documentation into build/docs
	$(python) -m sphinx -W -q -d build/doctrees docs build/docs
	@echo "build/docs/index.html"

test-accelerators: ## set up a second environment, then compile for TPUs and GPUs that are not here
	@$(MAKE) --no-print-directory VENV=$(VENV)-accelerators accelerators

accelerators: $(VENV)/accelerators.stamp
	$(python) -m pytest -q -n 2 --dist worksteal -m accelerators tests/py/accelerators

clean: ## remove the environment, builds and caches
	rm -rf $(VENV) $(VENV)-accelerators build dist .hypothesis .*_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(python):
	@for candidate in $(candidates); do \
	  if "$$candidate" -c '$(usable)' 2>/dev/null; then \
	    echo "creating $(VENV) with $$candidate ($$("$$candidate" --version))"; \
	    "$$candidate" -m venv $(VENV); \
	    exit 0; \
	  fi; \
	done; \
	echo "error: no Python 3.11 or later with venv and ensurepip among: $(candidates);" \
	  "install one (Debian, Ubuntu: python3 and python3-venv), or name one with PYTHON=" >&2; \
	exit 1

$(VENV)/demo.stamp: pyproject.toml | $(python)
	@echo "installing what the demo needs into $(VENV) (jaxlib is the large one)"
	@$(install) '.[demo]' | $(progress)
	@touch $@

$(VENV)/bench.stamp: pyproject.toml | $(python)
	@echo "installing what the benchmark needs into $(VENV) (jaxlib is the large one)"
	@$(install) '.[bench]' | $(progress)
	@touch $@

$(VENV)/test.stamp: pyproject.toml | $(python)
	@echo "installing what the tests need into $(VENV) (jaxlib is the large one)"
	@$(install) '.[test,check]' | $(progress)
	@touch $@

$(VENV)/accelerators.stamp: pyproject.toml | $(python)
	@echo "installing compilers of TPUs and GPUs into $(VENV) (libtpu and CUDA are large)"
	@$(install) '.[test,tpu-aot,gpu-aot]' | $(progress)
	@touch $@
