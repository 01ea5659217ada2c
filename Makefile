# Two commands do all set-up on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The pinned versions need Python 3.11; on 3.10, pip takes the newest that it can.
PINS := $(shell $(PYTHON) -c 'import sys; print("-c constraints.txt" * (sys.version_info >= (3, 11)))')
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check $(PINS)

.PHONY: demo test smoke docs test-integrations lint types unit campaign-inputs campaign-kills campaign-service clean
.DELETE_ON_ERROR:

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# A stamp per set of extras: installed again only when the declared dependencies change.
$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e ".[demo]"
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e ".[dev]"
	@touch $@

demo: $(VENV)/.demo
	$(BIN)/calibrant demo --overwrite

test: lint types unit

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

# One thread per worker: the workers already fill the cores.
unit: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadgroup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --import-mode=prepend --doctest-modules src \
		--ignore=src/calibrant/losses/triton \
		--ignore=src/calibrant/training/stacked/adamw_kernel.py  # Triton comes with CUDA alone.

# The adapters of libraries that are large or do not go with the others, each against the library itself, and
# object storage against a server of S3.
test-integrations: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)-integrations
	$(VENV)-integrations/bin/python -m pip install --quiet $(PINS) -e ".[files,transformers,spacy]" \
		gliner presidio-analyzer hypothesis pytest pytest-timeout
	$(VENV)-integrations/bin/python -m pytest -W ignore tests/integrations -k "gliner or presidio or spacy or huggingface"
	$(PYTHON) -m venv $(VENV)-flair  # flair needs an older transformers.
	$(VENV)-flair/bin/python -m pip install --quiet -e . flair hypothesis pytest pytest-timeout
	$(VENV)-flair/bin/python -m pytest -W ignore tests/integrations/test_flair.py
	$(PYTHON) -m venv $(VENV)-timm  # Its torchvision must be made for the torch that is installed.
	$(VENV)-timm/bin/python -m pip install --quiet $(PINS) -e ".[files,image,transformers]" hypothesis pytest \
		pytest-timeout
	$(VENV)-timm/bin/python -m pytest -W ignore tests/integrations/test_timm.py
	$(PYTHON) -m venv $(VENV)-storage  # The libraries of Amazon need an older python-dateutil.
	$(VENV)-storage/bin/python -m pip install --quiet -e ".[ray,delta,iceberg]" "pyiceberg[sql-sqlite]" \
		"aiobotocore[boto3]" flask flask-cors moto "s3fs>=2024.2" hypothesis pytest pytest-timeout pytest-xdist
	$(VENV)-storage/bin/python -m pytest tests/distributed/test_object_storage.py

# Builds the wheel, installs it with the least versions that we declare, and runs every command once.
smoke:
	$(PYTHON) scripts/smoke.py
	$(PYTHON) scripts/smoke.py --extras

# The site, in site/: tutorials are run, links are checked, warnings are errors.
$(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e ".[docs]"
	@touch $@

docs: $(VENV)/.docs
	$(BIN)/python scripts/docs/build.py

# Malformed inputs by the thousand: none may end in a traceback, a hang or a wrong exit code.
campaign-inputs: $(VENV)/.dev
	OMP_NUM_THREADS=1 nice -n 10 $(BIN)/python tests/fuzz/campaign.py --cases 20000 --apart 300 --jobs 2 \
		-o tests/fuzz/counts.json

# 10,000 malformed and 1,000 slow requests, damaged folders, a full disk, kills in a review: each request is answered,
# no decision is lost, and the service stays alive.
campaign-service: $(VENV)/.dev
	CALIBRANT_REQUESTS=10000 CALIBRANT_SLOW_REQUESTS=1000 CALIBRANT_FAULTS=10 OMP_NUM_THREADS=1 \
		$(BIN)/python -m pytest --timeout 3600 tests/serving tests/reviewing tests/prediction/test_serve.py \
		tests/prediction/test_service_faults.py

# Every command that writes, stopped at every kind of moment: results and folders as if it had not been.
campaign-kills: $(VENV)/.dev
	OMP_NUM_THREADS=1 nice -n 10 $(BIN)/python tests/campaigns/kills.py --kills 330 \
		--output tests/campaigns/results/kills.json

clean:
	rm -rf $(VENV) $(VENV)-integrations $(VENV)-flair $(VENV)-timm $(VENV)-storage out
