# make sweep: set up what is missing, then run the main job.   make test: the same, then the tests.
# On a machine without PyPI's default index, configure pip as usual; nothing here names one.

PYTHON ?= python3
TORCH  ?= 2.13.0
# More flags for the sweep: make sweep ARGS="--num-trials 48 --name wide"
ARGS   ?=

BIN  := .venv/bin
DONE := .venv/.installed
SWEEPS := .venv/bin/sweeps
FACES := .venv/.faces-installed
MLFLOW := .venv/.mlflow-installed
WANDB := .venv/.wandb-installed
PROJECTS := .venv/.projects-installed
DOCS := .venv/.docs-installed

# Several models are in this project: the main job names its own where ARGS names none.
MODEL = $(if $(findstring --trainable,$(ARGS))$(findstring --lightning-cli,$(ARGS))$(findstring --hydra,$(ARGS))$(findstring --config,$(ARGS))$(findstring --resume,$(ARGS))$(findstring --refine,$(ARGS)),,--trainable fashion_cnn)

# Where PyTorch sees a GPU, the main job trains on all rows; fp16 and the GPUs are chosen by the program.
# Only the main job: another trainable need not have a hyperparameter `rows`.
ON_GPU = $(if $(findstring --trainable,$(ARGS))$(findstring --lightning-cli,$(ARGS))$(findstring --hydra,$(ARGS))$(findstring --config,$(ARGS))$(findstring --resume,$(ARGS))$(findstring rows=,$(ARGS)),,$(shell \
  $(BIN)/python -c 'import torch; print("--params rows=0" if torch.cuda.is_available() else "")'))

# --no-loadscope-reorder: the long files, which have few tests, would otherwise come last, on one process.
# --max-worker-restart 0: where one of the two processes dies, the test that ran in it is named at once. A new one in
# its place can wait for ever for tests that it was never given (pytest-dev/pytest-xdist#1378).
PARALLEL := -n 2 --dist loadfile --no-loadscope-reorder --max-worker-restart 0 --timeout 300 \
            -p tests.support.skipped -p tests.support.crashed
# A test of over 4 s fails where it has no mark, and is run once more before.
QUICK := -m "not slow and not long" $(PARALLEL) -p tests.support.slow_tests --reruns 1 --only-rerun TooSlow

.PHONY: sweep test check test-all test-extras test-gpu test-matrix test-slurm bench lint docs data faces mlflow wandb projects clean

sweep: $(if $(findstring --data-dir,$(ARGS)),$(SWEEPS),data)
	$(BIN)/python -m sweeps run $(MODEL) $(ON_GPU) $(ARGS)

# Two processes, each a file at a time: half of these tests' time is waiting for processes that start.
# A test that hangs fails after the timeout, with the stack of each thread.
test: data
	$(BIN)/python -m pytest $(QUICK) --note-skipped

# All that CI checks beyond that: whole sweeps, other tests of over 2 s, the linters, the docs. In about 15 minutes on 2 cores.
check: lint docs data
	$(BIN)/python -m pytest -m "slow and not long" $(PARALLEL) --durations 40

test-all: test check
	$(BIN)/python -m pytest -m long --timeout 1800

# The tests that `make test` skipped for want of an extra, or of a program that was installed since. `make check` has
# slow ones that need them.
test-extras: data faces mlflow wandb projects $(DOCS)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements.lock "onnxruntime>=1.20" \
	  transformers accelerate keras xgboost-cpu lightgbm
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "trackio>=0.43" # with an older Pillow than the lock's
	$(BIN)/python -m pytest -m "not slow and not long" $(PARALLEL) --only-skipped

# What only a GPU shows, in a few minutes; without one each test is skipped with the reason.
test-gpu: data
	$(BIN)/python -m pytest -m gpu -rs --timeout 240

# Other releases of Python, PyTorch, Lightning, Ray and Optuna, each in an environment of its own: about an hour, and
# gigabytes of downloads. ARGS=corners: the oldest and the newest alone, with fewer tests. ARGS='"old Ray"': this one.
test-matrix: $(SWEEPS)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/python -m tests.support.matrix $(ARGS)

# A real Slurm of three nodes on this PC, as root: apt-get install slurm-wlm munge iproute2 openssh-server.
test-slurm: $(DONE)
	$(BIN)/python -m pytest -v --timeout 1800 tests/deploy/test_slurm.py

# On a machine that does nothing else. It says at the start how long each part takes, in all under two hours;
# ARGS="--only overhead scale": some of them. What the data path is compared with comes with
# .venv/bin/python -m pip install --no-deps litdata obstore tifffile pillow (those that are missing are left out).
bench: $(DONE) data
	$(BIN)/python -m benchmarks $(ARGS)

lint: $(DONE)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

data: $(SWEEPS)
	$(BIN)/python -m trainables._shared.fashion_mnist

# What the lock files of the extras install.
INSTALLS_faces := the packages of faces (once; 120 MB)
INSTALLS_docs := MkDocs Material (once; 15 MB)
INSTALLS_mlflow := MLflow and TensorBoard (once; 20 MB)
INSTALLS_wandb := Weights & Biases (once; 25 MB)
INSTALLS_projects := jsonargparse and Hydra (once; 4 MB)

.venv/.%-installed: %.lock $(DONE)
	@echo "Installing $(INSTALLS_$*)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r $<
	@touch $@

# What the trainable `faces` needs, and its clips. Without it, its tests are skipped.
faces: $(FACES)
	$(BIN)/python -m trainables._faces.demo_clips

# The pages of docs/ as a site, in site/index.html. A dead link ends it with an error.
docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "The docs: site/index.html"

# What `--loggers mlflow` needs, and TensorBoard's reader. Without it, their tests are skipped.
mlflow: $(MLFLOW)

# What `--loggers wandb` needs. Without it, its tests are skipped.
wandb: $(WANDB)

# What `--lightning-cli` and `--hydra` need. Without it, their tests are skipped.
projects: $(PROJECTS)

# What is wrong with this machine, in a line, before anything is written.
define CHECK_MACHINE
import os, shutil, sys
version = ".".join(map(str, sys.version_info[:2]))
free_gb = shutil.disk_usage(".").free / 1e9
if not (3, 11) <= sys.version_info[:2] <= (3, 14):
    sys.exit("error: Python 3.11 to 3.14 is needed, $(PYTHON) is %s: make PYTHON=python3.12" % version)
try:
    import ensurepip
except ImportError:
    sys.exit("error: $(PYTHON) has no venv module: apt-get install python3-venv")
if not os.access(".", os.W_OK):
    sys.exit("error: %s can't be written to; clone the repository into a folder of your own" % os.getcwd())
if free_gb < 4:
    sys.exit("error: %.1f GB are free on this disk; 4 GB are needed, and 10 GB with CUDA" % free_gb)
endef
$(DONE): export CODE = $(CHECK_MACHINE)

# torch first and pinned: a range would fetch gigabytes of CUDA packages where a CPU build is meant.
# The rest with --no-deps from the lock, so that no package that needs a compiler slips in.
$(DONE): requirements.lock
	@command -v $(PYTHON) >/dev/null || { echo "error: there is no $(PYTHON) here: make PYTHON=python3.12" >&2; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -c "$$CODE"
	@test -x $(BIN)/pip || { $(PYTHON) -m venv .venv && { \
	  timeout 120 $(BIN)/python -m pip index versions --retries 0 --timeout 20 ray >/dev/null 2>&1 || { echo \
	  "error: pip reaches no index of packages: check the network, HTTPS_PROXY, and 'pip config list'" >&2; \
	  rm -rf .venv; exit 1; }; }; }
	@echo "Installing torch $(TORCH) and what it needs (once; 200 MB on a CPU, 3 GB on a GPU machine)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements.lock torch==$(TORCH)
	@echo "Installing the other packages (once; 400 MB)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements.lock
	@touch $(DONE)

# The command `sweeps`, which runs this checkout as it is.
$(SWEEPS): $(DONE) pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $(SWEEPS)

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache site
