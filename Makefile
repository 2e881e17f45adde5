# Everything sets itself up: a fresh machine needs make and Python 3.11 or newer, nothing else.
SHELL := /bin/sh
# Debian's own first, if it can make virtual environments: it is compiled with profiles, and takes three quarters to nine
# tenths of the time of one that pyenv compiles as it does by default.
PYTHON ?= $(shell /usr/bin/python3.11 -c 'import ensurepip' 2>/dev/null && echo /usr/bin/python3.11 \
	|| command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PEERS := build/peers
INPUTS := pyproject.toml $(wildcard locks/*.txt) .ci/venv.sh .ci/packages.sh .ci/spark.sh
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# What mypy knows of each file, by its content: a new clone need not learn it again.
export MYPY_CACHE_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/tfprov-tests/mypy
# Three processes run the tests with hosts and trainings, a fourth the unit tests; the others begin when the three have less to do.
WORKERS ?= 6

.PHONY: demo test unit lint check docs picture matrix bench fuzz mutants schemas lock licences hadoop clean help

help:
	@echo "make demo    train a linear model with 1 ps and 2 workers on this machine, and bring its checkpoint back"
	@echo "make test    all tests, types and style"
	@echo "make unit    the unit tests alone"
	@echo "make lint    types and style alone"
	@echo "make docs    the links and the examples of the documentation"
	@echo "make picture the picture of README.md, from a real run"
	@echo "make matrix  the long forms of the tests, and the suite ten times beside other work"
	@echo "make bench   figures, side by side with peers"
	@echo "make fuzz    ten minutes of input that nobody would write, for the reader of inventories and playbooks"
	@echo "make mutants faults put into the pure packages one at a time: which of them does no test notice?"
	@echo "make schemas the JSON Schemas, docs/inventory.md and the man page anew, after a setting or an option has changed"
	@echo "make lock    the lock files anew, after constraints.txt or pyproject.toml has changed"
	@echo "make licences  names, versions and licences of all that is installed with tfprov"
	@echo "make hadoop  build/tfprov-hadoop.jar: TFRecord files in MapReduce and in Spark's Hadoop files"
	@echo "make clean   remove the virtual environment and caches"

demo: $(VENV)/ready-demo
	$(BIN)/tfprov run -i inventories/local.yml

lint: $(VENV)/ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

unit: $(VENV)/ready-dev
	$(BIN)/python -m pytest -p tests.forks --forks 4 tests/unit $(ARGS)

test: lint
	sh .ci/engine.sh
	sh .ci/browser.sh
	sh .ci/java.sh
	sh .ci/shells.sh
	$(BIN)/python -m pytest -p tests.forks --forks $(WORKERS) -m "not matrix" --durations=20 $(ARGS)

# Links, and every example of a shell or of Python that a page shows, as a reader types it.
docs: $(VENV)/ready-dev
	$(BIN)/python -m pytest -q tests/unit/test_docs.py tests/unit/test_api_docs.py tests/integration/test_doc_examples.py $(ARGS)

# The picture of README.md, from a real run in a pseudo-terminal.
picture: $(VENV)/ready-dev
	$(BIN)/python -m tests.support.terminal_picture docs/run.svg

# Every long form once, and the suite ten times beside four busy processes: make matrix ARGS="--times 1"
matrix: $(VENV)/ready-dev
	TFPROV_TESTS_ENGINE=required sh .ci/engine.sh
	TFPROV_TESTS_BROWSER=required sh .ci/browser.sh
	TFPROV_TESTS_JAVA=required sh .ci/java.sh
	TFPROV_TESTS_SHELLS=required sh .ci/shells.sh
	$(BIN)/python -m tests.matrix $(ARGS)

# Which parts, and how often: make bench ARGS="noop --rounds 11". Ansible and pyinfra get an environment of their own.
bench: $(VENV)/ready-dev $(PEERS)/ready
	sh .ci/engine.sh
	$(BIN)/python -m bench --peers $(PEERS)/bin $(ARGS)

# How long, and where to begin: make fuzz ARGS="--minutes 60 --seed 7"
fuzz: $(VENV)/ready-dev
	$(BIN)/python -m bench.fuzz $(ARGS)

# How many, which and where to begin: make mutants ARGS="--sample 50 --only 'tfprov/inventory/*' --seed 7"
mutants: $(VENV)/ready-dev
	$(BIN)/python -m tests.mutants $(ARGS)

# What editors and readers get is made from the code, and committed; a test says when a copy is stale.
schemas: $(VENV)/ready-dev
	$(BIN)/python -m tests.support.generated_files

# The hashes of what constraints.txt names, from the index that pip is configured for; a test says when they are stale.
lock: $(VENV)/ready-dev
	$(BIN)/python -m tests.support.package_index

# With the packages of an extra: make licences ARGS=tensorflow
licences: $(VENV)/ready-dev
	@$(BIN)/python -m tests.support.licences $(ARGS)

# Against the Hadoop of a cluster: make hadoop HADOOP_CLASSPATH="$(hadoop classpath)"; else against pyspark's.
hadoop: $(VENV)/ready-dev
	sh .ci/java.sh
	sh hadoop/build.sh build/tfprov-hadoop.jar \
		"$${HADOOP_CLASSPATH:-$$($(BIN)/python -c 'import pyspark; print(pyspark.__path__[0])')/jars/*}"
	@echo build/tfprov-hadoop.jar

$(PEERS)/ready: bench/requirements.txt .ci/venv.sh
	@mkdir -p $(dir $(PEERS))
	sh .ci/venv.sh "$(PYTHON)" $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check -r bench/requirements.txt
	@touch $@

# The demo needs TensorFlow and not the test tools; a stamp is newer than all that decides what is installed. Packages come
# from the lock files, by hash; pip cannot hash a directory, so that tfprov itself is added without anything else, and what
# builds it is one of the locked packages.
$(VENV)/ready-demo: $(INPUTS)
	sh .ci/venv.sh "$(PYTHON)" $(VENV)
	$(PIP) --no-deps --require-hashes -r locks/demo.txt
	$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/ready-dev: $(INPUTS)
	sh .ci/packages.sh "$(PYTHON)" $(VENV) locks/dev.txt
	sh .ci/spark.sh $(VENV)
	$(PIP) --no-deps --no-build-isolation -e .
	@touch $@ $(VENV)/ready-demo

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
