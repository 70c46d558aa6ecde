PYTHON ?= python3
PY := .venv/bin/python

.PHONY: help env demo test test-slow test-docker lint clean

help:
	@echo "make env    create .venv with everything the harness needs"
	@echo "make demo   measure three real indexes on real vectors and draw the figures (about 5 minutes)"
	@echo "make test   run the tests"
	@echo "make test-docker   build every image and run it; needs a Docker engine"
	@echo "make lint   check style"

env: .venv/installed

.venv/installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "error: $(PYTHON) is older than Python 3.10; run make PYTHON=/path/to/newer/python3" >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "error: $(PYTHON) cannot create virtual environments; on Debian: apt install python3-venv" >&2; exit 2; }
	@echo "Creating .venv (about a minute)"
	@$(PYTHON) -m venv --clear .venv
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@

demo: .venv/installed
	@$(PY) -m benchmarks.cli.demo

test: .venv/installed
	@$(PY) -m pytest -m 'not slow'

# pytest's exit code 5, no test selected, is a failure here: the slow tests exist.
test-slow: .venv/installed
	@$(PY) -m pytest -m slow

# Builds every image from nothing and runs it; without an engine it fails.
test-docker: .venv/installed
	@ROBUST_ANN_TEST_DOCKER=1 $(PY) -m pytest -m docker tests/docker

lint: .venv/installed
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .

clean:
	rm -rf .venv .environments datasets/cache
