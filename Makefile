# `make train` trains on the demo, `make test` runs the tests; both install into .venv first.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
export NO_ALBUMENTATIONS_UPDATE := 1

.PHONY: train test lint slow bench clean

train: .venv/installed
	$(BIN)/hires train experiment=demo $(ARGS)

test: .venv/installed
	$(BIN)/pytest -n 2 -m "not slow and not gpu" $(ARGS)

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

slow: .venv/installed
	$(BIN)/pytest -m "slow and not gpu" $(ARGS)

bench: .venv/installed
	$(BIN)/python tools/bench/train_step.py
	$(BIN)/python tools/bench/detection_step.py
	$(BIN)/python tools/bench/loader.py

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -e '.[dev]'
	touch $@

clean:
	rm -rf .venv build dist
