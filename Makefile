# `make` alone lists the targets. Each sets up what it needs in .venv; CI calls nothing else.
PYTHON ?= $(shell [ -x /usr/bin/python3 ] && /usr/bin/python3 -c 'import ensurepip, sys; assert (3, 10) <= sys.version_info < (3, 14)' 2>/dev/null && echo /usr/bin/python3 || echo python3)
VENV := .venv
PY := $(VENV)/bin/python
RUN := $(PY) -m autograder
LABS := $(if $(LAB),$(LAB),)
OUT ?= out
TABLES ?= $(OUT)

.DEFAULT_GOAL := help
.PHONY: help setup demo test attacks lint starter audit mutants zips grade grade-all trial preview platform messages new rename remove bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# A stamp, so that set-up runs again only when the requirements change. A .venv that is there, or linked to, is completed.
$(VENV)/.ready: requirements.txt
	@echo "setting up $(VENV) with $(PYTHON) (once; torch is about 200 MB)"
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' || \
		{ echo "Python 3.10 to 3.13 is needed; say which with: make PYTHON=/path/to/python3"; exit 2; }
	@if [ -x $(PY) ]; then :; \
	elif [ -L $(VENV) ]; then echo "$(VENV) is a link to $$(readlink $(VENV)), where there is no bin/python: remove the link"; exit 2; \
	elif ! $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null; then \
		echo "venv is missing: on Debian and Ubuntu, apt-get install python3-venv"; exit 2; \
	else $(PYTHON) -m venv $(VENV) || { echo "$(VENV) could not be made; the lines above say why"; exit 2; }; fi
	@$(PY) -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

setup: $(VENV)/.ready ## make .venv with everything in it

demo: setup ## grade the example hand-ins [LAB=…]
	@$(RUN) demo $(LABS)

test: setup ## run the framework's tests, on every core
	@$(PY) -m pytest -n auto --dist loadfile

attacks: setup ## every attack in every way of running, every fault at every step; prints the table [TABLES=docs]
	@ATTACKS=all ATTACKS_TABLES="$(TABLES)" $(PY) -m pytest tests/test_attacks.py tests/test_always_a_record.py; \
		ended=$$?; cat "$(TABLES)/attacks.md"; exit $$ended

lint: setup ## ruff and mypy
	@$(PY) -m ruff check .
	@$(PY) -m mypy

starter: setup ## strip reference/ into starter_code/ [LAB=…]
	@$(RUN) starter $(LABS)

new: setup ## make a new lab from the template: LAB=name
	@test -n "$(LAB)" || { echo "say what it is called: make new LAB=name"; exit 2; }
	@$(RUN) new $(LAB)

rename: setup ## give a lab another name: LAB=old TO=new
	@test -n "$(LAB)" -a -n "$(TO)" || { echo "say both names: make rename LAB=old TO=new"; exit 2; }
	@$(RUN) rename $(LAB) $(TO)

remove: setup ## remove a lab's folders: LAB=name YES=1 (without YES it only says which)
	@test -n "$(LAB)" || { echo "say which lab: make remove LAB=name YES=1"; exit 2; }
	@$(RUN) remove $(LAB) $(if $(YES),--yes,)

audit: setup ## grade the grader: the four laws of every lab [LAB=…] [MORE="--naming --stability"]
	@$(RUN) audit $(LABS) --out "$(OUT)" $(MORE)

mutants: setup ## the audit, and automatic mutants of each reference (takes a while) [LAB=…]
	@$(RUN) audit $(LABS) --mutants --out "$(OUT)"

zips: setup ## build dist/LAB/LAB-student.zip and LAB-autograder.zip [LAB=…]
	@$(RUN) zips $(LABS)

grade: setup ## grade one hand-in: LAB=… SUBMISSION=… [OUT=out] [IN=zh]
	@test -n "$(LAB)" -a -n "$(SUBMISSION)" || \
		{ echo "say which lab and which hand-in: make grade LAB=attention SUBMISSION=path [OUT=out]"; exit 2; }
	@$(RUN) grade $(LAB) "$(SUBMISSION)" --out "$(OUT)" $(if $(IN),--lang $(IN))

grade-all: setup ## grade a class: LAB=… SUBMISSIONS=… [OUT=out] [WORKERS=…] [SCHEDULER=tcp://…] [CANVAS=export.csv] [CODES=1]
	@test -n "$(LAB)" -a -n "$(SUBMISSIONS)" || \
		{ echo "say which lab and which class: make grade-all LAB=attention SUBMISSIONS=assignment_1_export [OUT=out]"; exit 2; }
	@$(RUN) grade-all $(LAB) "$(SUBMISSIONS)" --out "$(OUT)" $(if $(WORKERS),--workers $(WORKERS)) \
		$(if $(SCHEDULER),--scheduler "$(SCHEDULER)") $(if $(CANVAS),--canvas "$(CANVAS)") \
		$(if $(COLUMN),--column "$(COLUMN)") $(if $(CODES),--codes) $(if $(IN),--lang $(IN))

trial: setup ## make a class to try grade-all on: LAB=… [STUDENTS=30] [OUT=out/trial]
	@test -n "$(LAB)" || { echo "say which lab: make trial LAB=attention [STUDENTS=30] [OUT=out/trial]"; exit 2; }
	@$(RUN) trial $(LAB) "$(if $(filter out,$(OUT)),out/trial,$(OUT))" $(if $(STUDENTS),--students $(STUDENTS))

messages: setup ## collect what students read into the catalogues of translations [LAB=…] [IN=zh]
	@$(RUN) messages $(LABS) $(if $(IN),--lang $(IN))

preview: setup ## what a student sees on Gradescope, now and later: [OUT=out], where results.json is
	@$(RUN) preview "$(OUT)"

platform: setup ## do what Gradescope does, in a bare root (as root; minutes) [LAB=…] [TABLE=docs/platforms.md] [MEMORY=768] [CORES=0.5] [DOCKERFILE=1]
	@PYTHONPATH=tests $(PY) -m harness $(LABS) --out "$(OUT)/platform" $(if $(TABLE),--table "$(TABLE)") \
		$(if $(MEMORY),--megabytes $(MEMORY)) $(if $(CORES),--cores $(CORES)) $(if $(DOCKERFILE),--dockerfile)

bench: setup ## measure beside the peers (they go to .bench/); writes docs/benchmarks.md [QUICK=1: small, to out/]
	@$(PY) -m benchmarks $(if $(QUICK),--quick)

clean: ## remove what was built, .venv included
	@rm -rf $(VENV) .bench dist out .mypy_cache .ruff_cache .pytest_cache .hypothesis
