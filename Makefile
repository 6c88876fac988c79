# Each target makes what it needs, the virtual environment included, from Python 3.11 and make alone
# (the tests of Blob Storage and of the pipeline file also need Node).
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test lint bench soak lock image

demo: $(READY) ## two indexes, two candidates, two verdicts on this machine
	$(BIN)/python -m infra.local demo

test: $(READY)
	$(BIN)/python -m pytest --numprocesses 3 --dist loadfile

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(READY)
	$(BIN)/python -m tests.bench

soak: $(READY) ## processes killed and stopped, stores and networks that fail, many times
	$(BIN)/python -m tests.soak

image: $(READY) ## build and start the image without a registry; as root on a Debian, not part of CI
	$(BIN)/python -m infra.local.image

lock: $(READY) ## pin what pyproject.toml asks for, with hashes and without index addresses
	$(BIN)/uv pip compile pyproject.toml --extra monitor $(LOCKING) --output-file requirements/monitor.txt
	$(BIN)/uv pip compile pyproject.toml --constraint requirements/monitor.txt $(LOCKING) --output-file requirements/run.txt
	$(BIN)/uv pip compile pyproject.toml --extra monitor --group dev --group local --constraint requirements/monitor.txt $(LOCKING) --output-file requirements/dev.txt

LOCKING := --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate

$(READY): requirements/dev.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@
