# Every target sets up what it needs; a second run skips what is already there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORKERS ?= 2
export XLA_FLAGS ?= --xla_cpu_multi_thread_eigen=false
# The pool of threads that XLA has; with more, processes side by side wait for each other with busy cores.
export NPROC ?= 1
export MPLBACKEND := Agg
# On some processors XLA logs every piece of kept code as an error that is none.
export TF_CPP_MIN_LOG_LEVEL ?= 3
# Every process of the tests imports the package with its checks: that is compiled once.
unexport PYTHONDONTWRITEBYTECODE
# Tests compile much; what one compiled, the others find, in other checkouts too. Two weeks later it is forgotten.
CACHE := $(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(HOME)/.cache)/cvflows-tests
COMPILED := $(shell mkdir -p $(CACHE) 2> /dev/null && echo $(CACHE) || echo $(abspath $(VENV))/compiled)
unit test-thorough: export JAX_COMPILATION_CACHE_DIR := $(COMPILED)
unit test-thorough: export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS := 0
unit test-thorough: export JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES := -1
# Compiled in half the time: no optimisation, and the code generator that needs less of it.
PLAIN := XLA_FLAGS="$(XLA_FLAGS) --xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"

.PHONY: setup test test-thorough test-extras test-browser test-lowest test-lowest-jax requirements lint types unit docs docs-serve docs-pictures demo notebooks bench learning matrix unchanged robots reproduction suite-quick clean

setup: $(READY)

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	@touch $@

test: lint types unit

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

# What depends on rounding runs as users run it; the rest is compiled without optimisation, in half the time.
unit: $(READY)
	find $(COMPILED) -type f -mtime +14 -delete 2> /dev/null || true
	$(BIN)/pytest -n $(WORKERS) -m "optimised and not thorough"
	$(PLAIN) $(BIN)/pytest -n $(WORKERS) -m "not (optimised or thorough or extras or browser)"

# The sets that compile longest, whole suites, every example of the docs; PART=0/3 is the first third of them.
PART ?= 0/1
test-thorough: $(READY)
	$(BIN)/pytest -n $(WORKERS) --part $(PART) -m "optimised and thorough"
	$(PLAIN) $(BIN)/pytest -n $(WORKERS) --part $(PART) -m "thorough and not optimised"

# torch is large; CPU wheels of this version are small enough for a test.
test-extras: $(READY)
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet --editable ".[sb3,wandb,ray,export,notebooks]"
	$(BIN)/pytest -m extras

# Debian's Chromium; elsewhere, any Chromium on the path.
test-browser: $(DOCS)
	command -v chromium > /dev/null || apt-get install -y -qq chromium > /dev/null || { apt-get update -qq && apt-get install -y -qq chromium > /dev/null; }
	$(BIN)/python -m pip install --quiet "playwright>=1.45"
	$(BIN)/pytest -m browser

# The lowest versions that pyproject.toml allows, in an environment of their own: every module is imported, and the
# parts that lean on dependencies are tested. Old packages warn of newer ones, hence no errors from those warnings.
LOWEST := .venv-lowest
LOWEST_TESTS := $(addprefix tests/,test_packaging.py test_cli.py commands constraints/test_base.py \
	constraints/test_trace.py constraints/test_scalar.py constraints/test_project.py maps/test_maps.py \
	envs/test_robots.py envs/test_wrappers.py envs/test_vector.py runs/test_budgets.py)

$(LOWEST)/.ready: pyproject.toml requirements/lowest.txt
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --requirement requirements/lowest.txt
	$(LOWEST)/bin/python -m pip install --quiet --no-deps --editable .
	@touch $@

test-lowest: $(LOWEST)/.ready
	$(LOWEST)/bin/python -m pip check
	XLA_FLAGS="$(XLA_FLAGS) --xla_backend_optimization_level=0" $(LOWEST)/bin/pytest -n $(WORKERS) -W ignore::DeprecationWarning $(LOWEST_TESTS) \
		-m "not (optimised or thorough or extras or browser)"

# The lowest JAX with the newest of everything else: the other corner, on any Python.
LOWEST_JAX := .venv-lowest-jax
JAX_VERSION := $(shell sed -n 's/^jax==//p' requirements/lowest.txt)

$(LOWEST_JAX)/.ready: pyproject.toml requirements/lowest.txt
	$(PYTHON) -m venv $(LOWEST_JAX)
	$(LOWEST_JAX)/bin/python -m pip install --quiet --editable ".[test]" jax==$(JAX_VERSION)
	@touch $@

test-lowest-jax: $(LOWEST_JAX)/.ready
	$(LOWEST_JAX)/bin/python -m pip check
	XLA_FLAGS="$(XLA_FLAGS) --xla_backend_optimization_level=0" $(LOWEST_JAX)/bin/pytest -n $(WORKERS) -W ignore::DeprecationWarning $(LOWEST_TESTS) \
		-m "not (optimised or thorough or extras or browser)"

# Writes both files of exact versions: the lowest allowed, and those of the environment that passed the tests.
requirements: $(READY)
	$(BIN)/python -m pip install --quiet uv
	{ echo "# The lowest versions pyproject.toml allows (make requirements); make test-lowest installs them."; \
	  $(BIN)/uv pip compile pyproject.toml --quiet --no-header --no-annotate --resolution lowest-direct \
	    --extra test --python-version 3.11; } > requirements/lowest.txt
	{ echo "# The versions that passed all tests (make requirements); use: pip install . --constraint requirements/tested.txt"; \
	  $(BIN)/python -m pip freeze --exclude-editable --exclude uv | grep '==' | grep -v '+'; } > requirements/tested.txt

# The documentation as a site, in site/: a broken link or a missing name is an error. It needs no network, nor a server.
DOCS := $(VENV)/.docs
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs

$(DOCS): $(READY)
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	@touch $@

docs: $(DOCS)
	$(MKDOCS) build --quiet --strict
	@echo "the documentation: site/index.html"

docs-serve: $(DOCS)
	$(MKDOCS) serve --strict

# Minutes: pictures of the documentation that no benchmark draws, and figures of results/ on the pages of methods.
docs-pictures: demo
	$(BIN)/python -m benchmarks.pictures
	$(BIN)/python -m benchmarks.method_pages
	cp demo/power.png docs/images/demo-power.png

# A robot learns to walk under a limit on its power, on one core.
demo: $(READY)
	rm -rf demo
	$(BIN)/cvflows draw W+M --out demo
	$(BIN)/cvflows train W+M --method PPO+CVFlow --steps 900000 --final-episodes 20 --threads 1 --out demo/run
	$(BIN)/cvflows evaluate demo/run --episodes 10 --picture demo/power.png --video demo/walker.gif
	@echo "set: demo/W+M.png   curves: demo/run/curves.png   power: demo/power.png   film: demo/walker.gif"

# The examples as notebooks, with their outputs, and their pictures in docs/images/examples. Half an hour on one core.
notebooks: $(READY)
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet --editable ".[sb3,notebooks]"
	$(BIN)/python examples/notebooks/make.py

# A grid of two dozen short runs, and its report.
suite-quick: $(READY)
	$(BIN)/cvflows suite suites/quick.toml --out runs/quick
	$(BIN)/cvflows report runs/quick --out docs/example-report/report.html --title "cvflows: a quick grid"

# What has a row in results/ already is skipped; `python -m benchmarks.matrix --missing` lists what has none.
learning: $(READY)
	$(BIN)/python -m benchmarks.learning --out results

robots: $(READY)
	$(BIN)/python -m benchmarks.robots --out results

reproduction: $(READY)
	$(BIN)/python -m benchmarks.reproduction --out results

matrix: $(READY)
	$(BIN)/python -m benchmarks.matrix --out results --check

# Beside an earlier checkout: git worktree add ../before COMMIT, then make unchanged BEFORE=../before
unchanged: $(READY)
	CVFLOWS_BEFORE=$(BEFORE) $(BIN)/python -m benchmarks.unchanged --out results

# Hours. `python -m benchmarks` lists them, `python -m benchmarks NAME --out results` runs one.
bench: $(READY)
	$(BIN)/python -m benchmarks --out results

clean:
	rm -rf $(VENV) $(LOWEST) $(LOWEST_JAX) $(COMPILED) demo site
