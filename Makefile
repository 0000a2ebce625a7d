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

slow: .venv/installed
	$(BIN)/pytest -n 2 --maxschedchunk 1 -m "slow and not gpu" $(ARGS)

# Minutes each, then hours. Those that are left out: tilings.py, which asks for a run; peers.py, which makes an
# environment for other libraries (peers_ours.py, peers_run.py are its parts). loader.py needs ../shared/data.
# Cases that are in docs/bench already are not run again by pixels_cpu.py, autobatch.py and timm_coverage.py.
BENCHES := train_step detection_step saving startup loader image_windows published_memory planner_time pixels \
  activation_checkpointing pixels_cpu memory_accuracy autobatch timm_coverage

bench: .venv/installed
	for name in $(BENCHES); do echo "tools/bench/$$name.py"; $(BIN)/python tools/bench/$$name.py $(ARGS) || exit; done

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -e '.[dev]'
	touch $@

clean:
	rm -rf .venv build dist
