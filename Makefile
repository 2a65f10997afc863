# Two commands: `make demo` shows what bitcycle does, `make test` checks it. Both install what they need into .venv.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: install demo test lint clean

install: .venv/.installed

.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: install
	mkdir -p out
	$(BIN)/bitcycle schedules --bits 3 8 --cycles 8 --plot out/schedules.png
	$(BIN)/bitcycle cost cifar-resnet-8 --schedules all --policy cifar-resnet
	$(BIN)/bitcycle train image --schedule RTH --steps 200 --out out/digits

test: install
	$(BIN)/pytest -n 2

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf .venv out build
