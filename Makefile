PY ?= python3
V := .venv
BIN := $(V)/bin
.DEFAULT_GOAL := help
.PHONY: help venv test check lint types layers format clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(V)/.installed: requirements/dev.lock pyproject.toml
	$(PY) -m venv $(V)
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/dev.lock
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps -e .
	@touch $@

venv: $(V)/.installed ## create the virtual environment and install docket into it

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: venv
	$(BIN)/mypy

layers: venv
	$(BIN)/lint-imports

check: lint types layers ## format, lint, strict types, import layers

format: venv ## let ruff format and fix what it can
	$(BIN)/ruff check --fix . || true
	$(BIN)/ruff format .

test: venv ## every test that takes under 20 s (under 5 minutes in all)
	$(BIN)/python -m pytest -n 2 -q

clean:
	rm -rf $(V) build dist
