# Everything here is one command; `make help` lists them.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
STUDIES := $(basename $(notdir $(wildcard conf/study/*.yaml)))
TIER ?= smoke
PYTEST := $(BIN)/python -m pytest

.DEFAULT_GOAL := help

# Where an environment forbids byte code, every start of lab and every test compiles it all again.
export PYTHONDONTWRITEBYTECODE =

.PHONY: help
help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s%s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: install
install: $(INSTALLED)  ## an editable install with all checks' tools, in .venv/

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

.PHONY: quickstart
quickstart: install  ## install, train two small variants on real prose, print their table
	$(BIN)/lab train -m norm=layernorm,rmsnorm train.steps=150
	$(BIN)/lab table

.PHONY: repro $(addprefix repro-,$(STUDIES))
repro: $(addprefix repro-,$(STUDIES))  ## every study, or repro-NAME one: make repro-narang-ffn TIER=laptop

$(addprefix repro-,$(STUDIES)): repro-%: install
	$(BIN)/lab train study=$* tier=$(TIER)
	$(BIN)/lab table $*
	[ $(TIER) = smoke ] || ($(BIN)/lab store $* --tier $(TIER) && $(BIN)/python scripts/notes.py)

.PHONY: test
test: install  ## the fast tests, under 90 seconds
	OMP_NUM_THREADS=1 $(PYTEST) -n 2 --dist worksteal -m "not slow and not gpu"

.PHONY: test-slow
test-slow: install  ## the tests that train for real, build a wheel, or kill processes
	OMP_NUM_THREADS=1 $(PYTEST) -n 2 --dist worksteal --durations 40 -m "slow and not gpu"

.PHONY: test-gpu
test-gpu: install  ## the tests that need a CUDA device
	OMP_NUM_THREADS=1 $(PYTEST) -m gpu

.PHONY: check
check: install  ## formatting, lint, types, import layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: format
format: install  ## format and mend what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: ci-system
ci-system:  ## Debian packages that the tests need: a C++ compiler, Slurm, Chromium, LaTeX
	command -v g++ > /dev/null || (apt-get update -q && apt-get install -qy g++)
	command -v slurmctld > /dev/null || (apt-get update -q && \
		DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends \
		slurmctld slurmd slurm-client munge)
	command -v chromium > /dev/null || (apt-get update -q && \
		DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends chromium)
	kpsewhich booktabs.sty > /dev/null 2>&1 || (apt-get update -q && \
		DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends texlive-latex-recommended)

.PHONY: ci
ci: export CI = 1  # what is not installed fails then, instead of being skipped
ci: check test test-slow  ## what CI runs

.PHONY: bench
bench: install  ## a training step against nanoGPT's: make bench NANOGPT=path/to/checkout
	$(BIN)/python scripts/bench/step.py --nanogpt $(NANOGPT)

.PHONY: clean
clean:  ## remove the environment and what builds leave; outputs/ stays
	rm -rf .venv dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
