# SPDX-License-Identifier: MIT
# On a fresh machine with Python 3.10 or later and git: `make demo` and `make test`.
# All that these install goes into .venv/ and .venv-3.*/ here; `make clean` takes it away.

BIN := .venv/bin
PYTEST := -q -n auto --maxprocesses 8 --dist worksteal
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYTEST_DEBUG_TEMPROOT ?= $(shell .ci/test-folder)
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE

.PHONY: help test suite pythons coverage lint types format fuzz torture mutations bench bench-quick demo wheel clean
.NOTPARALLEL:
.DELETE_ON_ERROR:

help:
	@echo 'make demo      see ckpt at work in a scratch repository'
	@echo 'make test      lint, types and all tests, on one Python'
	@echo 'make pythons   the tests on every other Python found'
	@echo 'make suite     all tests, and nothing else'
	@echo 'make fuzz      random work against real git, damaged files; WALKS=500 sets how many'
	@echo 'make torture   kill and fail each single operation, files of a gigabyte'
	@echo 'make mutations break each promise in a copy of ckpt, and see a test fail'
	@echo 'make bench     how quick ckpt is beside git, with up to 100,000 files; bench-quick: a minute'
	@echo 'make coverage  which lines and branches of ckpt the tests reach, subprocesses too'
	@echo 'make lint      ruff and codespell'
	@echo 'make types     mypy'
	@echo 'make format    let ruff put the code in order'
	@echo 'make wheel     build wheel and sdist into dist/'
	@echo 'make clean     remove all that make made'

test: lint types suite

suite: .venv/ready
	$(BIN)/python -m pytest $(PYTEST)

WALKS := 300
fuzz: .venv/ready
	CKPT_FUZZ_EXAMPLES=$(WALKS) $(BIN)/python -m pytest $(PYTEST) tests/properties tests/fuzz

torture: .venv/ready
	CKPT_TORTURE=1 $(BIN)/python -m pytest $(PYTEST) tests/faults tests/hostile \
		tests/with_git/test_large_files.py

mutations: .venv/ready
	CKPT_TORTURE=1 $(BIN)/python -m pytest $(PYTEST) tests/mutations

# The repositories stay in $CKPT_BENCH_DIR, or in ckpt-bench/ in the temporary folder.
bench: .venv/program
	$(BIN)/python -m bench --output bench --docs

bench-quick: .venv/program
	$(BIN)/python -m bench --quick

coverage: .venv/ready
	rm -f .coverage .coverage.*
	$(BIN)/python -m coverage run -m pytest $(PYTEST)
	$(BIN)/python -m coverage combine -q && $(BIN)/python -m coverage report

lint: .venv/ready
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/codespell

types: .venv/ready
	$(BIN)/mypy

format: .venv/ready
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

demo: .venv/program
	@sh demo/demo.sh $(BIN)

wheel: .venv/ready
	$(BIN)/python -m build --no-isolation

pythons: .venv/ready
	@.ci/other-pythons $(PYTEST)

# The program alone, which is quickly there; the tools of `make test` come on top.
.venv/program: pyproject.toml
	@set -- $$(.ci/pythons); python=$$(.ci/pythons "$${1:-none}") || { \
		echo 'error: no Python 3.10 to 3.13 that can make virtual environments' >&2; \
		echo 'hint: install one; on Debian and Ubuntu, also python3-venv' >&2; exit 1; }; \
	echo "Installing into .venv, with Python $$1"; \
	"$$python" -m venv .venv && $(call install,.venv,.)

.venv/ready: .venv/program
	@echo 'Installing the tools for tests into .venv'; $(call install,.venv,.[dev])

.venv-%/ready: pyproject.toml
	@echo 'Installing into .venv-$*, with Python $*'; \
	"$$(.ci/pythons $*)" -m venv .venv-$* && $(call install,.venv-$*,.[test])

# pip says nothing but errors. The tests use its --python; Python 3.10 may bring an older one.
install = $(1)/bin/python -m pip install -qq 'pip>=22.3' \
	&& $(1)/bin/python -m pip install -qq -e '$(2)' \
	&& touch $@

clean:
	rm -rf .venv .venv-3.* .coverage* build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
