#!/usr/bin/env bash
# Sets up .venv in this folder (once) and runs the linter and the tests, the slow ones too, on all cores (at most 8).
# usage: bash test.sh [pytest arguments, such as -m "not slow" or tests/scoring]
set -euo pipefail
cd "$(dirname "$0")"
. .ci/environment.sh
prepare_environment "[test]"

# torch by pip, which finds a local CPU build where one lies; only the parity tests against transformers use it.
if ! .venv/bin/python -c 'import torch, transformers' 2>/dev/null; then
  .venv/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
  .venv/bin/uv pip install --quiet --python .venv/bin/python -e ".[parity]"
fi

# The report and the rating page are tested in a real Chromium: the system's, Debian's, or playwright's.
if ! command -v chromium chromium-browser google-chrome >/dev/null; then
  { [ "$(id -u)" = 0 ] && apt-get install -y -qq --no-install-recommends chromium >/dev/null 2>&1; } \
    || .venv/bin/playwright install chromium >/dev/null 2>&1 \
    || echo "no Chromium to be had: the tests that need one will be skipped" >&2
fi

.venv/bin/ruff check .
.venv/bin/ruff format --check .
if [ $# -gt 0 ]; then
  exec .venv/bin/pytest "$@"
fi
cores=$(nproc)
# One process takes all tests of a file, so that what they share is made once; files with slow tests come first.
.venv/bin/pytest -m "not alone" -n "$((cores < 8 ? cores : 8))" --dist loadfile --no-loadscope-reorder
exec .venv/bin/pytest -m alone
