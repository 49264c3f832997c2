# The two commands of the README are `make demo` and `make test`. Each makes .venv the first time.

VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.kbdisk-installed
# Each file's tests in one process, so that the models they share are trained once.
SIDE_BY_SIDE := -n auto --dist loadfile
# The first Python on the PATH that is 3.11.5 or newer; say PYTHON=... to choose another.
PYTHON ?= $(shell for one in python3 python python3.14 python3.13 python3.12 python3.11; do \
	$$one -c 'import sys; sys.exit(sys.version_info < (3, 11, 5))' >/dev/null 2>&1 && echo $$one && break; done)

# Tests start many processes: each would compile kbdisk anew, and pytest all tests in each worker.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install demo test test-slow test-portable test-slow-machine test-first check format bench-io bench-infer bench-train bench-scale bench-faithful docs clean

help:  ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /make \1\t/' | expand -t 26

install: $(STAMP)  ## .venv with everything that work on kbdisk needs

$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "kbdisk needs Python 3.11.5 or newer: put one on the PATH, or say make PYTHON=..."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV): this takes some minutes, once"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'setuptools>=77' 'torch>=2.6,<2.14' -e '.[test]'
	@touch $@

demo: $(STAMP)  ## a small knowledge base completed by a model of itself: a minute or two
	@PATH="$(abspath $(BIN)):$$PATH" bash examples/demo.sh

docs: $(STAMP)  ## the site of the docs in build/site, from the pages and the code; refuses broken links
	@$(BIN)/python docs/reference.py build/docs
	@$(BIN)/zensical build --clean --strict

test: check docs  ## everything that must hold: check, docs, the fast tests with the blocks of README and docs
	@$(BIN)/python -m pytest -q $(SIDE_BY_SIDE)

test-slow: $(STAMP)  ## the tests that take long
	@$(BIN)/python -m pytest -q -m slow --timeout 3600
	@KBDISK_HYPOTHESIS=thorough $(BIN)/python -m pytest -q -m 'hypothesis and not slow' --timeout 3600

test-portable: $(STAMP)  ## the numeric tests with other vector units, without bfloat16, on one busy core
	@$(BIN)/python tests/portable.py

test-slow-machine: $(STAMP)  ## the fast tests as on a machine that is eight times slower
	@PYTHONPATH=tests $(BIN)/python -m pytest -q -p slow_clock $(SIDE_BY_SIDE)

test-first: $(STAMP)  ## what a newcomer meets first: the trained blocks of README and docs, the demo, the commands, every option
	@$(BIN)/python -m pytest -q $(SIDE_BY_SIDE) -m slow --timeout 3600 \
		tests/test_docs.py tests/test_examples.py tests/test_options.py tests/test_cli_train.py tests/test_cli_complete.py tests/benchmarks \
		--ignore tests/benchmarks/test_peers.py --ignore tests/benchmarks/test_language_models.py

check: $(STAMP)  ## format, lint and types
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@rm -rf .stage && mkdir -p .stage/kbdisk
	@ln -s ../benchmarks .stage/
	@ln -s $(addprefix ../../,loaders schemas $(filter-out %/__pycache__,$(wildcard kbdisk/*))) .stage/kbdisk/
	@cd .stage && $(abspath $(BIN))/mypy --config-file ../pyproject.toml --cache-dir ../.mypy_cache -p kbdisk -p benchmarks

format: $(STAMP)  ## write the format that check wants
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench-io: $(STAMP)  ## how fast sources are read, against the libraries beneath
	@$(BIN)/python -m benchmarks io

bench-infer: $(STAMP)  ## what inferring a schema costs beside loading alone
	@$(BIN)/python -m benchmarks infer

bench-train: $(STAMP)  ## how fast a training step is, against a plain network and the machine
	@$(BIN)/python -W ignore -m benchmarks train

bench-scale: $(STAMP)  ## seconds, memory and quality from 1,000 entities to 100,000, and reading of a million: an hour
	@$(BIN)/python -W ignore -m benchmarks scale --sizes 1000000 --only reading,holding,inspect >/dev/null
	@$(BIN)/python -W ignore -m benchmarks scale

bench-faithful: $(STAMP)  ## whether the paper preset learns as a plain network does: hours, as it is wide
	@$(BIN)/python -W ignore -m benchmarks faithful

clean:  ## leave nothing that was built
	rm -rf build dist .stage .mypy_cache .ruff_cache .pytest_cache .hypothesis .cache
