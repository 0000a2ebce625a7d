# `make train` trains on the demo, `make test` runs the tests, `make bench BENCHES=loader` a measurement; all install
# into .venv first.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
export NO_ALBUMENTATIONS_UPDATE := 1

.PHONY: train test lint slow bench clean

train: .venv/installed
	$(BIN)/hires train experiment=demo $(ARGS)

test: .venv/installed
	$(BIN)/pytest -n 2 --maxschedchunk 8 -m "not slow and not gpu" $(ARGS)

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/bench/tables.py --check

slow: .venv/installed
	$(BIN)/pytest -n 2 --maxschedchunk 1 -m "slow and not gpu" $(ARGS)

# All of tools/bench (hours), or `make bench BENCHES="loader saving" ARGS="--pairs 3"`; then the figures in the docs.
bench: .venv/installed
	$(BIN)/python tools/bench/run_all.py $(BENCHES) -- $(ARGS)

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -e '.[dev]'
	touch $@

clean:
	rm -rf .venv build dist
