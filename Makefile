# Each target sets up in .venv what it needs: `make demo` the package, others also their tools.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup demo docs test test-slow test-faults test-processors test-cluster slurm tools lint bench clean

.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "bnmodes needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ..."; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable .
	touch $@

.venv/installed-dev: .venv/installed
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

setup: .venv/installed

demo: .venv/installed
	$(BIN)/bnmodes study run demo
	$(BIN)/bnmodes study report demo

# The pages of docs/ as a site, with the reference of every public name: site/index.html.
docs: .venv/installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

test: .venv/installed-dev lint .venv/tools
	$(BIN)/python -m pytest -n 2 --dist worksteal

# What is long by nature: real runs that must learn, studies that are killed and go on, compilation.
test-slow: .venv/installed-dev .venv/tools
	$(BIN)/python -m pytest -n 2 --dist worksteal -m slow

# Hundreds of kills, full disks, damaged files and bad command lines, in less than 15 minutes.
test-faults: .venv/installed-dev
	timeout 900 $(BIN)/python tests/faults/campaign.py

# Numbers and learning, with the arithmetic of older processors too.
test-processors: .venv/installed-dev .venv/tools
	$(BIN)/python tests/processors.py

# Studies on a real Slurm and a real Ray of this machine; the tests start and end both.
test-cluster: .venv/installed-cluster slurm
	$(BIN)/python -m pytest tests/cluster

.venv/installed-cluster: .venv/installed-dev
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev,slurm,ray]"
	touch $@

slurm:
	@{ command -v slurmctld && command -v slurmd && command -v munged; } >/dev/null || { [ "$$(id -u)" = 0 ] && \
	  command -v apt-get >/dev/null && apt-get update -qq && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
	    slurm-wlm munge >/dev/null; } || \
	  { echo "make test-cluster needs slurm-wlm and munge: install them as root"; exit 2; }

# The report's tests look at it in a real browser, and torch.compile wants a compiler; without them
# those tests are skipped. Once they are here, nobody looks again.
tools: .venv/tools
.venv/tools: .venv/installed-dev
	@{ { command -v chromium && $(BIN)/python -c \
	  'from bnmodes.execution import has_compiler; exit(not has_compiler())'; } >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && \
	  command -v apt-get >/dev/null && apt-get update -qq && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium g++ python3-dev >/dev/null; }; } && \
	  touch $@ || echo "chromium or g++ is missing: the tests that need them will be skipped"

lint: .venv/installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: .venv/installed
	$(BIN)/bnmodes bench

clean:
	rm -rf .venv runs site
