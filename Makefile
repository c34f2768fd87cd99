# `make` alone lists the targets. Each sets up what it needs in .venv; CI calls nothing else.
PYTHON ?= $(shell [ -x /usr/bin/python3 ] && /usr/bin/python3 -c 'import ensurepip, sys; assert (3, 10) <= sys.version_info < (3, 14)' 2>/dev/null && echo /usr/bin/python3 || echo python3)
VENV := .venv
PY := $(VENV)/bin/python
RUN := $(PY) -m autograder
LABS := $(if $(LAB),$(LAB),)
OUT ?= out

.DEFAULT_GOAL := help
.PHONY: help setup demo test attacks lint starter audit mutants zips grade clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# A stamp, so that set-up runs again only when the requirements change.
$(VENV)/.ready: requirements.txt
	@echo "setting up $(VENV) with $(PYTHON) (once; torch is about 200 MB)"
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' || \
		{ echo "Python 3.10 to 3.13 is needed; say which with: make PYTHON=/path/to/python3"; exit 2; }
	@$(PYTHON) -m venv $(VENV) || { echo "venv is missing: on Debian and Ubuntu, apt-get install python3-venv"; exit 2; }
	@$(PY) -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

setup: $(VENV)/.ready ## make .venv with everything in it

demo: setup ## grade the example hand-ins [LAB=…]
	@$(RUN) demo $(LABS)

test: setup ## run the framework's tests
	@$(PY) -m pytest

attacks: setup ## run the attack suite (fork bombs and floods included: on a machine of its own)
	@$(PY) -m pytest -o addopts="-ra -q" tests/test_attacks.py

lint: setup ## ruff and mypy
	@$(PY) -m ruff check .
	@$(PY) -m mypy

starter: setup ## strip reference/ into starter_code/ [LAB=…]
	@$(RUN) starter $(LABS)

audit: setup ## grade the grader: the four laws of every lab [LAB=…] [MORE="--naming --stability"]
	@$(RUN) audit $(LABS) --out "$(OUT)" $(MORE)

mutants: setup ## the audit, and automatic mutants of each reference (takes a while) [LAB=…]
	@$(RUN) audit $(LABS) --mutants --out "$(OUT)"

zips: setup ## build dist/LAB/LAB-student.zip and LAB-autograder.zip [LAB=…]
	@$(RUN) zips $(LABS)

grade: setup ## grade one hand-in: LAB=… SUBMISSION=… [OUT=out]
	@test -n "$(LAB)" -a -n "$(SUBMISSION)" || \
		{ echo "say which lab and which hand-in: make grade LAB=attention SUBMISSION=path [OUT=out]"; exit 2; }
	@$(RUN) grade $(LAB) "$(SUBMISSION)" --out "$(OUT)"

clean: ## remove what was built, .venv included
	@rm -rf $(VENV) dist out .mypy_cache .ruff_cache .pytest_cache .hypothesis
