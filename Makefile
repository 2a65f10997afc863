# Two commands: `make demo` shows what bitcycle does, `make test` checks it. Both install what they need into .venv.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: install demo docs test test-all sanitize fuzz chaos coverage lint clean

install: .venv/.installed

.venv/.installed: pyproject.toml constraints.txt src/bitcycle/kernels/_native.c
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

# The study of the digits: ten schedules in 2 and 8 cycles and three baselines over five seeds, and a report to look at.
demo: install
	$(BIN)/bitcycle schedules --bits 1 8 --plot out/schedules.png
	$(BIN)/bitcycle study benchmarks/demo.toml

# The documentation as a website in out/site, which opens from the disk. A broken link or reference is an error.
docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The fast tier: every law and every contract. A test of it that takes over a second fails.
test: install
	$(BIN)/pytest -n 2 --dist worksteal

# Both tiers: also processes, compilers, browsers, Ray, docs, examples, real data, and full combinations.
test-all: install
	HYPOTHESIS_PROFILE=thorough $(BIN)/pytest -n 2 --dist worksteal -m ""

# A million random specs and ten thousand random plans; `make test-all` includes a short run. FUZZ sets numbers and the seed.
FUZZ ?= 1000000 --plans 10000 --seed 0
fuzz: install
	$(BIN)/python -m tests.fuzz $(FUZZ)

# Studies that are killed, damaged and run out of disk must end as undisturbed ones, bit for bit. FIRST continues a series.
FAULTS ?= 1000
SEED ?= 0
FIRST ?= 0
chaos: install
	$(BIN)/python -m tests.chaos --faults $(FAULTS) --seed $(SEED) --first $(FIRST)

# The native kernels under gcc's address and undefined-behaviour sanitizers, over the tests that call them.
sanitize: install
	HYPOTHESIS_PROFILE=quick $(BIN)/python -m tests.kernels.sanitize

# Line coverage of the core by its own tests. Measuring doubles their time, so properties are checked on few examples.
CORE := schedules kernels arithmetic nn conversion _cost lab/advice
coverage: install
	HYPOTHESIS_PROFILE=quick $(BIN)/pytest -n 2 tests/schedules tests/kernels tests/arithmetic tests/conversion \
		tests/nn/test_own_products.py tests/cost tests/lab/advice tests/test_scheduler.py $(CORE:%=--cov=src/bitcycle/%) --cov-report=term:skip-covered

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf .venv out build
