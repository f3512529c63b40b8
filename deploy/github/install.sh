#!/usr/bin/env bash
# Install docket from SOURCE into an environment of its own, with the pinned and hashed packages of its lock.
set -euo pipefail
target=$RUNNER_TEMP/docket
"$PYTHON" -m venv "$target"
"$target/bin/python" -m pip install -q --disable-pip-version-check --require-hashes -r "$SOURCE/requirements/runtime.lock"
"$target/bin/python" -m pip install -q --disable-pip-version-check --no-deps "$SOURCE"
"$target/bin/docket" --version
