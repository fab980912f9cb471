# Everything that is done with this project; `make` lists it. A fresh machine needs Python >= 3.10
# and a package index, nothing else. `make PYTHON=python3.12 test` takes another Python.

PYTHON ?= python3
# The image's name, and the program that packs the chart.
IMAGE ?= prequential
HELM ?= helm
# Options for the program that a target runs, e.g. make demo ARGS="--duration 30".
ARGS ?=

DEMO := .venv
TEST := .venv-test
RELEASE := .venv-release

# That ARGS leaves a run without tests is no failure (pytest's status 5).
MAYBE_NONE := || [ $$? -eq 5 ]

# What is imported is kept for the processes that follow: without it each reads the sources anew.
export PYTHONDONTWRITEBYTECODE :=

# The engine's loops, once, in two processes: what comes then finds them.
LOOPS = $(TEST)/bin/python -m tests.loops

# The examples of docstrings.
DOCTESTS = $(TEST)/bin/python -m pytest -q --doctest-modules -o doctest_optionflags=ELLIPSIS \
  -o consider_namespace_packages=true topics pipeline

# The contracts of packages. import-linter finds both folders of the package once the package is imported.
ROOMS = PYTHONPATH=pipeline $(TEST)/bin/python -c \
  "import prequential; from importlinter.cli import lint_imports_command as run; run()" --no-logo --no-cache

# How much tests try: see tests/nightly.py.
LARGE := PREQUENTIAL_TESTS=large

SOURCES := $(shell find topics pipeline -name '*.py')

.DEFAULT_GOAL := help
.PHONY: help demo test loops examples imported quick nightly lint bench fuzz mutants chaos world worlds safeguards docs manifests matrix pins audit \
  tag wheel smoke sdist sbom image chart clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-9s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(DEMO)/.ready ## broker, page, worker, and a stream with a drift; ARGS="--data flights" replays real flights
	$(DEMO)/bin/prequential demo $(ARGS)

test: $(TEST)/.ready ## before a change goes in: lint, types, doctests, all tests with small worlds; its last lines name the brokers
	$(MAKE) --no-print-directory -j 2 lint examples imported
	$(if $(ARGS),,PAGES_PASSED=$(TEST)/pages-passed) LOOPS_READY=1 \
	  $(TEST)/bin/python -m pytest -n 4 --dist loadfile $(ARGS) $(MAYBE_NONE)

loops: $(TEST)/.ready
	$(LOOPS)

examples: loops
	$(DOCTESTS)

# The tests' files, once: otherwise each process of a parallel run rewrites the assertions of all. Beside the
# compiler, whose last loops leave a core idle.
imported: $(TEST)/.ready
	$(TEST)/bin/python -m pytest -q --collect-only > /dev/null

quick: $(TEST)/.ready ## while coding: no broker, nothing slow
	$(TEST)/bin/python -m pytest -q -n 2 --dist loadfile \
	  -m "not kafka and not embedded and not slow and not bench" $(ARGS)

nightly: lint fuzz examples ## before a release, and each night: the same with large worlds, fuzz, chaos, evidence, peers
	$(MAKE) --no-print-directory mutants ARGS="--mutants 20 --seed $$(date +%j)"
	$(LARGE) $(TEST)/bin/python -m pytest -q --timeout 3600 -m bench tests/bench
	$(LARGE) $(TEST)/bin/python -m pytest --timeout 3600 -n 2 --dist loadfile -m "not bench" $(ARGS) $(MAYBE_NONE)

lint: $(TEST)/.ready ## ruff, prose, import contracts, mypy
	$(TEST)/bin/ruff check topics pipeline tests
	$(TEST)/bin/ruff format --check topics pipeline
	$(TEST)/bin/python tests/prose.py
	$(TEST)/bin/ruff check --preview --select PLW1514 topics pipeline # a file that is opened as text names its encoding
	$(ROOMS)
	$(TEST)/bin/mypy

bench: $(TEST)/.ready ## the benchmark, side by side with its peers; ARGS="--help" lists its options
	$(TEST)/bin/python -m tests.bench.contest $(ARGS)

fuzz: $(TEST)/.ready ## decoder and engine, with bounds checked, under random poison for SECONDS (default 600)
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(TEST)/checked-loops \
	  FUZZ_SECONDS=$(or $(SECONDS),600) $(TEST)/bin/python -m pytest -q --timeout 0 tests/engine/test_fuzz.py tests/engine/test_neighbouring_configurations.py $(ARGS)

mutants: $(TEST)/.ready ## errors that no test of the engine finds, of a sample; ARGS="--mutants N --seed S", default 150 and 1
	$(TEST)/bin/python -m tests.bench.mutants $(ARGS)

chaos: $(TEST)/.ready ## workers and broker struck at random; ARGS="--minutes N --seed S", default 10 and 1
	$(TEST)/bin/python tests/worker/chaos.py $(ARGS)

world: $(TEST)/.ready ## one simulated world, and its story: SEED=17 says which
	$(TEST)/bin/python -m tests.simulation --seed $(or $(SEED),0) $(ARGS)

worlds: $(TEST)/.ready ## simulated worlds from a seed on, those that fail are named: WORLDS (default 200), FIRST (default 0)
	$(TEST)/bin/python -m tests.simulation --worlds $(or $(WORLDS),200) --first $(or $(FIRST),0) $(ARGS)

safeguards: $(TEST)/.ready ## how many worlds find each safeguard that is switched off; ARGS="NAME --times 5"
	$(TEST)/bin/python -m tests.simulation.finding $(ARGS)

docs: $(TEST)/.ready ## the documentation as a site, in site/; fails on a broken link
	$(TEST)/bin/mkdocs build --quiet

manifests: $(TEST)/.ready ## what the Helm chart has of alert rules and topics, and what it comes to (needs helm)
	$(TEST)/bin/python tests/deploy/manifests.py

matrix: $(RELEASE)/.ready ## Python, packages and Kafka, oldest and newest; ARGS="--cell python3.12-newest"
	$(RELEASE)/bin/python tests/matrix.py $(ARGS)

pins: $(RELEASE)/.ready ## the image's packages resolved anew: deploy/requirements*.txt, with hashes
	$(RELEASE)/bin/python tests/deploy/pins.py

# Strict: a package that the database doesn't answer for is a failure, never passed over.
audit: $(RELEASE)/.ready ## known vulnerabilities of the image's packages; fails where the database can't be reached
	$(RELEASE)/bin/pip-audit --strict --disable-pip --require-hashes -r deploy/requirements.txt $(ARGS)
	$(RELEASE)/bin/pip-audit --strict --disable-pip --require-hashes -r deploy/requirements-feeder.txt $(ARGS)

wheel: $(RELEASE)/.ready ## wheels, in dist/: of the sources, and one for this platform with the engine's loops in it
	$(RELEASE)/bin/python -m build --wheel --outdir dist .
	$(RELEASE)/bin/python deploy/wheel.py dist/prequential-*-py3-none-any.whl

smoke: ## whether the wheel for this platform works in a new environment; CONTAINER=python:3.12-slim tries it there
ifdef CONTAINER
	docker run --rm --volume "$(CURDIR)/dist:/dist:ro" --volume "$(CURDIR)/deploy/smoke.py:/smoke.py:ro" \
	  $(CONTAINER) python /smoke.py /dist
else
	$(PYTHON) deploy/smoke.py dist
endif

sdist: $(RELEASE)/.ready ## the sources as users download them, and a wheel without compiled loops, in dist/
	$(RELEASE)/bin/python -m build --outdir dist .

tag: ## whether TAG, such as v0.2.0, is the version of package, chart and changelog
	$(PYTHON) deploy/tag.py "$(TAG)"

image: ## the container image, with compiled loops; IMAGE names it
	docker build --file deploy/Dockerfile --tag "$(IMAGE)" .

chart: ## the Helm chart as an archive, in dist/ (needs helm)
	@mkdir -p dist
	$(HELM) package deploy/helm/prequential --destination dist

sbom: $(RELEASE)/.ready ## the image's bill of materials (CycloneDX), in dist/
	@mkdir -p dist
	$(RELEASE)/bin/cyclonedx-py requirements deploy/requirements.txt --pyproject pyproject.toml \
	  --output-reproducible --output-file dist/prequential.cdx.json

clean: ## remove environments, builds and caches
	rm -rf $(DEMO) $(TEST) $(RELEASE) build dist site *.egg-info \
	  .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find topics pipeline tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The demo runs what users install: made anew when a source has changed. (A `build` left behind by an
# earlier version would bring removed modules back.) Bytecode of all packages would take 9 s more; Python writes
# that of what the demo imports.
$(DEMO)/.ready: pyproject.toml $(SOURCES)
	$(call environment,$(DEMO))
	rm -rf build
	@echo 'installing prequential and what it needs into $(DEMO)'
	$(DEMO)/bin/python -m pip install -q --no-compile --disable-pip-version-check '.[demo]'
	@touch $@

# Tests and benchmark run on the sources themselves. Bytecode of packages is written where it is imported: all of
# it would take 20 s, one file after the other.
$(TEST)/.ready: pyproject.toml
	$(call environment,$(TEST))
	$(TEST)/bin/python -m pip install -q --no-compile --disable-pip-version-check -e '.[test]'
	@touch $@

$(RELEASE)/.ready: pyproject.toml
	$(call environment,$(RELEASE))
	$(RELEASE)/bin/python -m pip install -q --disable-pip-version-check '.[release]'
	@touch $@

# An environment that git doesn't see; the one that is there is used again.
define environment
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or later is needed, $(PYTHON) is " + sys.version.split()[0])'
	@test -x $(1)/bin/python || { echo 'making the environment $(1)'; $(PYTHON) -m venv $(1); }
	@echo '*' > $(1)/.gitignore
endef
