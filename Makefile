# Every target works on a fresh machine with Python >= 3.11, make and git: .venv is made on first use.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
PEERS := .venv-peers/.installed
COMPLETION := .venv-completion/.installed
DOCS := .venv-docs/.installed
REAL := .venv-real/.installed
OLDEST := .venv-oldest/.installed

ON_GPU := JAX_PLATFORMS=cuda,cpu XLA_PYTHON_CLIENT_PREALLOCATE=false

.PHONY: install demo docs test test-gpu lint types verify real torture mutants bench bench-fairness bench-completion clean

install: $(STAMP)

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else f"tightrope needs Python >= 3.11 and {sys.executable} is {v.major}.{v.minor}; choose another with: make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: install
	$(BIN)/python examples/demo.py

# The site, in out/docs: a broken link, a failing example or a public name without an entry fails it. Examples that have not
# changed are not run again.
docs: $(DOCS)
	.venv-docs/bin/python -m pytest -q -m '' tests/test_documentation.py
	.venv-docs/bin/sphinx-build -b html -c docs -d out/docs-cache -W --keep-going -q . out/docs
	@echo "Written to out/docs/index.html."

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/basedpyright

# Everything on the newest JAX that this Python has, and the core on the oldest one that is allowed.
test: lint types $(OLDEST)
	$(BIN)/pytest -n 2 --dist loadfile
	.venv-oldest/bin/python -m pytest -n 2 --dist loadfile tests/test_compiler.py tests/methods tests/solvers tests/loop

# The core, sets, methods and feasibility on an accelerator, once the environment's JAX has one: pip install -e ".[cuda13]"
test-gpu: install
	$(ON_GPU) $(BIN)/python -m pytest -n 4 tests/sets tests/methods tests/evidence tests/loop tests/problem tests/test_precision.py

verify: install
	XLA_FLAGS= $(BIN)/pytest -n 2 --dist loadfile -m slow
	XLA_FLAGS= $(BIN)/pytest -m '' tests/test_compiler.py tests/test_precision.py
	$(BIN)/python -m studies.rates
	$(BIN)/python -m studies.fit_rates
	$(BIN)/python -m studies.brake
	$(BIN)/python -m studies.finite_data
	$(BIN)/python -m studies.fairness
	$(BIN)/python -m studies.fair_coverage
	$(BIN)/python -m studies.constrained
	$(BIN)/python -m studies.completion
	$(BIN)/python -m studies.problems
	$(BIN)/python -m studies.theory
	$(BIN)/python -m studies.defaults
	$(BIN)/python -m studies.certificates
	$(BIN)/python -m studies.projection_free
	$(BIN)/python -m studies.nested
	$(BIN)/python -m studies.walks
	$(BIN)/python -m studies.adverse
	$(BIN)/python -m studies.adverse --half unseen
	$(BIN)/python -m studies.adverse --page

# Convex problems on real data, the half to develop on and then the page; HALF=unseen is looked at once. It goes on where it was.
HALF ?= develop
real: $(REAL)
	-.venv-real/bin/python -m studies.real --half $(HALF)
	.venv-real/bin/python -m studies.real --page

# Attacks, for so many minutes in all; an hour unless MINUTES says otherwise. What they found is in docs/reliability.md.
MINUTES ?= 60
torture: install
	$(BIN)/python -m torture --minutes $(MINUTES)

# Do the tests of the core see small mistakes in it? An hour on two cores; `python -m torture.mutants --processes 16` is quicker.
mutants: install
	$(BIN)/python -m torture.mutants

bench: install
	$(BIN)/python -m benchmarks.imports
	$(BIN)/python -m benchmarks.first_calls
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks.digits
	$(BIN)/python -m benchmarks.finite_data --big
	$(BIN)/python -m benchmarks.lmo
	$(BIN)/python -m benchmarks.split
	$(BIN)/python -m benchmarks.scale
	$(MAKE) bench-fairness

bench-fairness: $(PEERS)
	.venv-peers/bin/python -m benchmarks.metric_frame
	.venv-peers/bin/python -m benchmarks.fairness
	.venv-peers/bin/python -m benchmarks.loose
	OPENBLAS_NUM_THREADS=1 .venv-peers/bin/python -m benchmarks.fair_rates

bench-completion: $(COMPLETION)
	.venv-completion/bin/python -m benchmarks.completion

# The libraries that tightrope is compared with have environments of their own, beside tightrope itself.
$(PEERS): benchmarks/peers.txt $(STAMP)
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check --requirement benchmarks/peers.txt --editable .
	@touch $@

$(REAL): benchmarks/real.txt $(STAMP)
	$(PYTHON) -m venv .venv-real
	.venv-real/bin/python -m pip install --quiet --disable-pip-version-check --requirement benchmarks/real.txt --editable '.[dev]'
	@touch $@

# All packages are those of .venv but JAX, which is found here first.
$(OLDEST): $(STAMP)
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check --no-deps jax==0.9.2 jaxlib==0.9.2
	$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
		> "$$(.venv-oldest/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/other_packages.pth"
	@touch $@

$(DOCS): pyproject.toml
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

$(COMPLETION): benchmarks/completion.txt $(STAMP)
	$(PYTHON) -m venv .venv-completion
	.venv-completion/bin/python -m pip install --quiet --disable-pip-version-check --requirement benchmarks/completion.txt --editable .
	@touch $@

clean:
	rm -rf .venv .venv-oldest .venv-peers .venv-completion .venv-docs .venv-real docs/gallery out dist build .pytest_cache .ruff_cache .hypothesis
