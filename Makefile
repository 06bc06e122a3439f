# make reproduce [SCALE=smoke|desk|paper] [TARGET=file]   environment, data, training, evaluation, tables, summary
# make test                                               environment, then the tests
# make test-fast                                          the tests that train and build nothing, 3 minutes
# make test-long                                          further tests on whole repositories, many minutes
# make restore [SCALE=...] [BUNDLE=file]                  results from elsewhere verified and taken for done
# Also: env, lint, format, lock. Every command may be interrupted and repeated.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.PHONY: reproduce restore test test-fast test-long lint format env lock
.DEFAULT_GOAL := reproduce

SCALE ?=
TARGET ?=
BUNDLE ?=
VENV := .venv
CODE := tap tests benchmarks examples configs
# Named by the content of what says what is installed: while that is unchanged nothing is, whatever the files' times.
STAMP := $(VENV)/.made-from-$(shell cat requirements.lock pyproject.toml | sha256sum | cut -c1-16)
# One more than there are cores: tests wait for processes that they start.
WORKERS := $(shell echo $$(( $$(nproc) + 1 )))
export PATH := $(abspath $(VENV))/bin:$(PATH)
# Where a machine forbids bytecode, each of hundreds of processes would compile the package anew.
export PYTHONDONTWRITEBYTECODE :=

reproduce: $(STAMP)
	tap remake $(TARGET) $(if $(SCALE),--scale $(SCALE))
	snakemake $(TARGET) $(if $(SCALE),--config scale=$(SCALE))
	tap summary $(if $(SCALE),--scale $(SCALE))
	tap compare published $(if $(SCALE),--scale $(SCALE))

restore: $(STAMP)
	tap restore $(if $(SCALE),--scale $(SCALE)) $(if $(BUNDLE),--bundle $(BUNDLE))

test: $(STAMP)
	OMP_NUM_THREADS=1 python -m pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not long" --durations=25

test-long: $(STAMP)
	OMP_NUM_THREADS=1 python -m pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m long

test-fast: $(STAMP)
	OMP_NUM_THREADS=1 python -m pytest -q -n $(WORKERS) --dist loadfile -m "not slow"

lint: $(STAMP)
	ruff check $(CODE)
	ruff format --check $(CODE)
	mypy
	snakefmt --check workflow
	tap config check

format: $(STAMP)
	ruff check --fix $(CODE)
	ruff format $(CODE)
	snakefmt workflow

env: $(STAMP)

# uv where there is one, else pip, twice at the same time: torch and the libraries of its card are as much as all the
# rest, and pip unpacks one package after the other. Every package is checked against its hash; bytecode is made on all
# cores, which neither does, but for packages' own tests and the models of transformers, which nothing here imports;
# templates that are no code fail.
TORCH := ^(torch|torchvision|triton|nvidia-[a-z0-9-]+)==
LOCKED = <(awk -v of_torch=$(1) '/^[^ \#]/ { here = /$(TORCH)/ } here == of_torch' requirements.lock)
PIP_INSTALL := $(VENV)/bin/python -m pip install --no-deps

$(STAMP):
	if command -v uv > /dev/null; then \
	  [[ -x $(VENV)/bin/python ]] || uv venv --python 3.11 $(VENV); \
	  uv pip install --python $(VENV)/bin/python --require-hashes -r requirements.lock; \
	  uv pip install --python $(VENV)/bin/python --no-deps --no-build-isolation -e .; \
	else \
	  $(VENV)/bin/python -m pip --version > /dev/null 2>&1 || python3.11 -m venv --clear $(VENV) || \
	    { echo "Python 3.11 with venv is needed (or uv, which brings it)" >&2; exit 1; }; \
	  $(PIP_INSTALL) --no-compile --progress-bar off --require-hashes -r $(call LOCKED,1) & torch=$$!; \
	  trap "kill $$torch 2> /dev/null || true" EXIT; \
	  $(PIP_INSTALL) --no-compile --require-hashes -r $(call LOCKED,0); \
	  wait $$torch; \
	  $(PIP_INSTALL) --no-build-isolation -e .; \
	fi
	$(VENV)/bin/python -m compileall -q -j 0 -x '/tests?/|/transformers/models/' $(VENV)/lib > /dev/null || true
	rm -f $(VENV)/.made-from-*
	touch $@

# Resolves requirements.in anew. All in one call: a second one would move packages under those of the first.
lock:
	uv pip compile requirements.in --python-version 3.11 --generate-hashes --no-header -o requirements.lock
