# What to type in a checkout. Everything is made inside it (.venv) but the guests' packages,
# which go to the data directory of whoever calls ($GROUNDBOX_HOME, ~/.local/share/groundbox or, for root, /var/lib/groundbox).
#
#   make setup            .venv with hashed requirements, groundbox editable, environment `default`
#   make demo             examples/demo.py, results in demo-output/
#   make serve            `groundbox serve`, on http://127.0.0.1:8000/ with a key that it prints; ARGS='--port 0' are its options
#   make quick            the tests that take less than 0.2 s each
#   make quick-wheel      the same against a wheel of the checkout, installed into .venv-wheel
#   make test             all tests but the soak and eleven twelfths of those marked slow or that take 0.5 s (but for
#                         those of the wall), a process for each processor;
#                         ARGS='-k name -x' goes to pytest, WORKERS=0 is one process, PART=2/12 another twelfth
#   make test-all         the same with all that are slow
#   make durations        run all tests one after another, and store which of them are slow in tests/durations.json
#   make heartbeat        the longest gaps of the host's event loop beside attacks on it
#   make fleet-demo       three machines of namespaces, for root: sessions on each, one loses power, one leaves; told as it happens
#   make lint             ruff, mypy, import-linter
#   make format           ruff, in place
#   make bench            every benchmarks/bench_*.py
#   make adapters         .venv-adapters with agent frameworks, and the tests of groundbox inside them; ARGS as above
#   make clients          .venv-clients with other people's clients of the server's protocols, and the tests that drive
#                         them against it, and the kernel of notebooks; ARGS as above
#   make ray              .venv-ray with Ray and a server that stands for S3, and the tests of builds, judging and rewards on
#                         clusters, and of parts in object stores (five minutes); ALL=1: with all that machines go through (twelve); ARGS as above
#   make training         .venv-train with torch and trainers, and a model of 20,000 weights trained in it; ARGS as above
#   make experiment       small models that learn from direct answers, raw traces and proven narrations, compared
#                         (25 minutes; QUICK=1: two, LONG=1: all arms, three seeds); results in experiment-output/
#   make local-model      a real small model from the package index: one question, ten narrations, figures
#   make other-hosts      User-Mode Linux with control groups of version 2 and 1, 2 and 3 GiB: the tests of control groups
#                         and limits, those that every backend passes, and E2B's SDK against a server (five minutes);
#                         for root (scripts/under_another_kernel.sh has the packages it needs)
#   make another-kernel   Debian's kernel in a virtual machine, with control groups of version 2: `groundbox doctor`, and the
#                         tests of control groups; for root
#   make sweep            every route of the server with every adversarial value in each field, for hours on a busy machine
#   make weekly           what is slow and rarely breaks: tests of the wall under User-Mode Linux, `another-kernel`,
#                         chroots of other systems as scripts/other_systems.py has them, `sweep`, `load` and `trainers`; for root
#   make load             20,000 runs with large outputs, and 10,000 scored runs under kills
#   make trainers         .venv-trainers with verifiers, and its runtime against the server
#   make wheels           what is published, in dist/: the source distribution, the wheel for every platform,
#                         and one with native tracers; ARGS=--partial without those that cannot be built
#   make lock             resolve requirements/*.txt and the lock of `default` anew
#
# PYTHON=/usr/bin/python3.12 chooses the interpreter of .venv (3.11 to 3.13); without it, the newest of those here is taken.
# Guests have one of their own: GROUNDBOX_PYTHON chooses that.

PYTHON ?=
BIN    := .venv/bin

.PHONY: help setup demo fleet-demo serve quick quick-wheel test test-all durations heartbeat adapters clients ray lint format bench training experiment local-model other-hosts other-hosts-walls other-systems another-kernel sweep weekly wheels lock clean another-python

help:
	@sed -n '4,/^$$/s/^# \{1,3\}//p' Makefile

# A stamp for .venv, so that a repeated call costs nothing; `environment create` checks for itself
# whether there is something to build. The stamp holds the PYTHON that was asked for: another one is not ignored.
OTHER := $(if $(PYTHON),$(filter-out $(shell cat .venv/stamp 2>/dev/null),$(PYTHON)))

setup: .venv/stamp
	@$(BIN)/groundbox environment create default
	@echo "setup: done; next: ./groundbox run -c 'print(6 * 7)'" >&2

another-python:

.venv/stamp: requirements/dev.txt pyproject.toml scripts/setup.sh $(if $(OTHER),another-python)
	@PYTHON='$(PYTHON)' sh scripts/setup.sh
	@printf '%s' '$(PYTHON)' >$@

demo: setup
	$(BIN)/python examples/demo.py demo-output

fleet-demo: setup
	@exec $(BIN)/python examples/fleet_demo.py

serve: setup
	@exec $(BIN)/groundbox serve $(ARGS)

WORKERS ?= auto
PART    ?= 1/12
PYTEST  := $(BIN)/python -m pytest -m 'not soak'
# Whoever has ended with their share of the tests takes from the others'. Tests marked `alone` take turns (tests/tiers.py).
SPREAD  := -n $(WORKERS) --maxprocesses 8 --dist worksteal

quick: setup
	$(PYTEST) $(SPREAD) --quick $(ARGS)

quick-wheel: setup
	rm -rf build/wheel && $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation -w build/wheel .
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-wheel
	$(BIN)/uv pip sync --quiet --require-hashes --python .venv-wheel/bin/python requirements/dev.txt
	$(BIN)/uv pip install --quiet --no-deps --python .venv-wheel/bin/python build/wheel/*.whl
	.venv-wheel/bin/python -m pytest -m 'not soak' $(SPREAD) --quick $(ARGS)

test: setup
	$(PYTEST) $(SPREAD) --part $(PART) $(ARGS)

test-all: setup
	$(PYTEST) $(SPREAD) $(ARGS)

durations: setup
	$(PYTEST) --store-durations

heartbeat: setup
	$(BIN)/python -m pytest tests/escape/test_heartbeat.py $(ARGS)

# The frameworks find groundbox where it lies; nothing of it is built for them.
IN_ADAPTERS := .venv-adapters/bin/python -m pytest $(SPREAD) -o asyncio_default_fixture_loop_scope=function
OF_TOOLS    := tests/learn/evaluation/test_harness.py tests/learn/evaluation/test_inspect_tasks.py
OLDER       := .venv-adapters/deepagents-0.6

adapters: setup .venv-adapters/stamp
	PYTHONPATH=$(CURDIR)/src $(IN_ADAPTERS) tests/agent/adapters $(OF_TOOLS) $(ARGS)
	$(if $(ARGS),,PYTHONPATH=$(CURDIR)/src:$(OLDER) $(IN_ADAPTERS) tests/agent/adapters/test_deepagents_sandbox.py)

.venv-adapters/stamp: requirements/adapters.txt requirements/deepagents-0.6.txt .venv/stamp
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-adapters
	$(BIN)/uv pip sync --quiet --require-hashes --python .venv-adapters/bin/python requirements/adapters.txt
	$(BIN)/uv pip install --quiet --no-deps --require-hashes --python .venv-adapters/bin/python \
		--target $(OLDER) -r requirements/deepagents-0.6.txt
	@touch $@

# Two venvs, because OpenEnv's client needs version 1 of MCP's package, and agent frameworks version 2.
IN_CLIENTS := .venv-clients/bin/python -m pytest $(SPREAD)

clients: setup .venv-clients/stamp .venv-adapters/stamp
	PYTHONPATH=$(CURDIR)/src $(IN_CLIENTS) tests/server/wires tests/server/protocols tests/server/console \
		tests/jupyter tests/packaging/test_deploy.py $(ARGS)
	$(if $(ARGS),,PYTHONPATH=$(CURDIR)/src $(IN_ADAPTERS) tests/server/wires/test_mcp.py)

.venv-clients/stamp: requirements/clients.txt tests/server/wires/js/package-lock.json .venv/stamp
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-clients
	$(BIN)/uv pip sync --quiet --require-hashes --python .venv-clients/bin/python requirements/clients.txt
	cp -R .venv/lib/python*/site-packages/*groundbox* .venv-clients/lib/python*/site-packages/  # groundbox, and its entry points
	@if command -v npm >/dev/null; then npm ci --silent --no-audit --no-fund --prefix tests/server/wires/js; \
		else echo "clients: no npm here, so that the SDKs in JavaScript are not driven" >&2; fi
	@touch $@

# One after the other: Ray gives its processes 15 s to start, whatever else the machine does.
IN_RAY   := PYTHONPATH=$(CURDIR)/src .venv-ray/bin/python -m pytest -n 0
OF_RAY   := tests/dataset/test_object_store.py tests/dataset/test_ray_executor.py tests/dataset/test_ray_machines.py tests/fleet/test_on_ray.py \
            tests/learn/test_ray.py
IN_SHORT := bucket or same_bytes_as_on_one_machine or rewards_are_the_same or without_power or head_that_does_not_answer

ray: setup .venv-ray/stamp
	$(IN_RAY) $(OF_RAY) $(if $(ALL)$(ARGS),$(ARGS),-k '$(IN_SHORT)')

.venv-ray/stamp: requirements/ray.txt .venv/stamp
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-ray
	$(BIN)/uv pip sync --quiet --require-hashes --python .venv-ray/bin/python requirements/ray.txt
	@touch $@

# torch is taken as pip is set up to find it. Python 3.11 is asked first: some mirrors have a build for processors for that.
TRAIN_PYTHON ?= $(firstword $(wildcard /usr/bin/python3.11) $(BIN)/python)
IN_TRAIN     := OMP_NUM_THREADS=1 .venv-train/bin/python -m pytest

training: .venv-train/stamp
	$(IN_TRAIN) tests/learn/training tests/learn/experiment/test_training.py tests/learn/evaluation/test_folder.py $(ARGS)

FORM       := $(if $(QUICK),quick,$(if $(LONG),long,short))
EXPERIMENT ?= experiment-output/$(FORM)

experiment: setup .venv-train/stamp
	.venv-train/bin/python -m groundbox.learn.experiment --form $(FORM) --out $(EXPERIMENT) --real examples/problems/everyday.jsonl $(ARGS)

.venv-train/stamp: requirements/train.txt requirements/train-torch.txt .venv/stamp
	$(TRAIN_PYTHON) -m venv --clear .venv-train
	$(BIN)/uv pip install --quiet --no-deps --require-hashes --python .venv-train/bin/python -r requirements/train.txt
	.venv-train/bin/python -m pip install --quiet --disable-pip-version-check -r requirements/train-torch.txt
	.venv-train/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@touch $@

lint: .venv/stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/stamp
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: setup
	@set -e; for bench in benchmarks/bench_*.py; do echo "== $$bench"; $(BIN)/python "$$bench"; done

local-model: setup
	$(BIN)/python scripts/local_model.py

# One processor each, and no Landlock, which every sandbox waives. Quick ones at 1 and 3 GiB, all at 2.
AGAIN      := sh -c '"$$@" || "$$@" --last-failed --maxfail=3' sh  # deadlines of half a second meet a busy machine
UML        := UML=1 scripts/under_another_kernel.sh env PYTHONPATH=$(CURDIR)/tests/without_landlock:$(CURDIR)/src $(AGAIN)
IN_UML     := python -m pytest -q -o cache_dir=/tmp/pytest -n 0
OF_GROUPS  := tests/jail/test_cgroup.py tests/jail/test_cgroup_mounts.py
OF_LIMITS  := tests/conformance/test_backends.py tests/cli/test_run.py
LIMITED    := TestNamespaces and (memory or disk or number_of) or limits_reach or cell_prints
WITH_E2B   := gives_text_output or variables_stay or files_are_written or commands_tell or asynchronous

other-hosts: setup .venv-clients/stamp
	MEMORY=1G $(UML) $(BIN)/$(IN_UML) $(OF_GROUPS) $(OF_LIMITS) -k 'test_cgroup or $(LIMITED)'
	MEMORY=2G $(UML) $(BIN)/$(IN_UML) tests/conformance/test_backends.py -k TestNamespaces
	MEMORY=2G $(UML) .venv-clients/bin/$(IN_UML) tests/server/wires/test_e2b.py -k '$(WITH_E2B)'
	MEMORY=3G $(UML) $(BIN)/$(IN_UML) $(OF_GROUPS) $(OF_LIMITS) -k 'test_cgroup or $(LIMITED)'

# What is refused without Landlock, such as branching, is skipped. The heap has no random place on this kernel, which then
# keeps `brk` above the program's data (CONFIG_COMPAT_BRK), out of reach of a keeper.
OF_WALLS   := tests/jail tests/template tests/sandbox tests/escape
NOT_THERE  := --deselect 'tests/jail/test_sealed.py::test_without_the_guard_a_guest_has_its_keeper_run_what_it_likes[brk]'

other-hosts-walls: setup
	MEMORY=4G WITHIN_S=7200 $(UML) $(BIN)/$(IN_UML) -p landlock_skips $(OF_WALLS) $(NOT_THERE) -m 'not soak' $(ARGS)

other-systems: .venv/stamp
	$(BIN)/python scripts/other_systems.py $(ARGS)

sweep: setup
	GROUNDBOX_SWEEP=long $(BIN)/python -m pytest -q -p no:cacheprovider -n 0 -s tests/server/test_sweep.py

trainers: setup .venv-trainers/stamp
	PYTHONPATH=$(CURDIR)/src .venv-trainers/bin/python -m pytest -n 0 tests/server/wires/test_e2b.py -k verifiers $(ARGS)

.venv-trainers/stamp: requirements/trainers.txt .venv/stamp
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-trainers
	$(BIN)/uv pip sync --quiet --require-hashes --python .venv-trainers/bin/python requirements/trainers.txt
	@touch $@

load: setup
	GROUNDBOX_LOAD_RUNS=20000 GROUNDBOX_SCORED_RUNS=10000 $(BIN)/python -m pytest -q -n 0 -s tests/server/test_load.py tests/server/test_scores.py

weekly: other-hosts other-hosts-walls another-kernel other-systems sweep load trainers

another-kernel: setup
	scripts/under_another_kernel.sh sh -c '$(BIN)/groundbox doctor && $(BIN)/python -m pytest -q -p no:cacheprovider -n 0 tests/jail/test_cgroup.py'

wheels: .venv/stamp
	$(BIN)/python scripts/build_wheels.py dist $(ARGS)

# Hashed, for every supported Python and platform, and without a word about the index they came from.
RESOLVE := uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	--no-annotate --no-header --no-emit-index-url
LOCKS   := src/groundbox/sandbox/environments/locks

lock: .venv/stamp
	$(BIN)/$(RESOLVE) pyproject.toml --extra dev --no-emit-package groundbox -o requirements/dev.txt
	$(BIN)/$(RESOLVE) requirements/adapters.in -o requirements/adapters.txt
	$(BIN)/$(RESOLVE) requirements/clients.in -o requirements/clients.txt
	$(BIN)/$(RESOLVE) requirements/ray.in -o requirements/ray.txt
	$(BIN)/$(RESOLVE) requirements/trainers.in -o requirements/trainers.txt
	echo "torch ; python_version < '3'" | $(BIN)/$(RESOLVE) requirements/train.in --override - -o requirements/train.txt
	$(BIN)/$(RESOLVE) --no-deps requirements/local-model.in -o requirements/local-model.txt
	$(BIN)/$(RESOLVE) $(LOCKS)/default.in -o $(LOCKS)/default.txt

clean:
	rm -rf build .venv .venv-adapters .venv-clients .venv-ray .venv-train .venv-trainers .venv-wheel .local-model demo-output .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
