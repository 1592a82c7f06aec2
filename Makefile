# make demo and make test do all the set-up on a fresh machine (Python >= 3.11).
PYTHON ?= python3
BIN := .venv/bin
export OPENBLAS_NUM_THREADS ?= 1
export OMP_NUM_THREADS ?= 1
# or each of the servers and processes that tests start compiles all that it imports, once more
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all serve docs screenshots lint answers clean bench-peers pins sbom audit image-check

.venv/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: .venv/installed
	$(BIN)/lhb demo

serve: .venv/installed
	$(BIN)/lhb serve

# the site, in out/site; warnings are errors
docs: .venv/installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# the pictures of the page in docs/pages, by Chromium
screenshots: .venv/installed
	$(BIN)/python -m benchmarks.server.screenshots

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# the client's types of settings, after a session's have changed; the pages of rules and of problem
# codes
answers: .venv/installed
	$(BIN)/python -m tests.contracts.client_settings
	$(BIN)/python -m tests.service.session.test_rules
	$(BIN)/python -m tests.service.base.test_problems

# three processes on two cores: much of a test's time is waiting for servers that it started
WORKERS ?= 3
PYTEST := $(BIN)/pytest -n $(WORKERS) --dist worksteal --durations=25

# mypy, in a process, beside the tests
test: .venv/installed
	$(MAKE) lint & $(PYTEST) -m "not slow and not image"; tests=$$?; wait $$! && exit $$tests

# the tests of `test`, then those that take long, and properties on all of their examples
test-all: test
	LHB_TEST_EXAMPLES=all $(PYTEST) -m "(slow or hypothesis) and not image"

# the solver's rivals in an environment of their own: adelie needs numpy < 2, skglm compiles
bench-peers:
	test -x .venv-peers/bin/python || $(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check \
		'numpy<2' 'adelie==1.1.52' 'celer==0.7.4' 'skglm==0.5'

# what follows is about the image, with tools in an environment of their own
TOOLS := .venv-tools/bin
.venv-tools/installed: Makefile
	test -x $(TOOLS)/python || $(PYTHON) -m venv .venv-tools
	$(TOOLS)/python -m pip install --quiet --disable-pip-version-check \
		'uv==0.13.9' 'cyclonedx-bom==7.5.0' 'pip-audit==2.10.1'
	touch $@

# deploy/requirements.txt, after constraints.txt or pyproject.toml has changed
pins: .venv-tools/installed
	echo setuptools | $(TOOLS)/uv pip compile --quiet pyproject.toml - --extra postgres --extra opentelemetry \
		-c constraints.txt --generate-hashes --python-platform linux --python-version 3.11 \
		--no-annotate --custom-compile-command 'make pins' -o deploy/requirements.txt

# a list of what the image installs, for scanners: CycloneDX, in out/sbom.json
sbom: .venv-tools/installed
	mkdir -p out
	$(TOOLS)/cyclonedx-py requirements deploy/requirements.txt --pyproject pyproject.toml \
		--output-reproducible --of JSON -o out/sbom.json

# asks PyPI whether a pinned version has a known vulnerability; fails also if PyPI does not say
audit: .venv-tools/installed
	$(TOOLS)/pip-audit --strict --disable-pip --require-hashes -r deploy/requirements.txt || { \
		echo 'A table above names vulnerabilities. An ERROR above means that PyPI said nothing of that package:' \
			'then none of them counts as checked.'; exit 1; }

# builds the Dockerfile without a daemon, on Debian's own Python, and runs it: as root, with Debian's
# buildah and debootstrap; some minutes
image-check: .venv/installed
	sh tests/image/build.sh out/image
	LHB_IMAGE=out/image $(BIN)/pytest -m image

clean:
	rm -rf .venv .venv-tools build out *.egg-info
