#!/usr/bin/env bash
# Sets up .venv in this folder (once); checks layout, types and documentation; and runs the tests on all cores (at most 8).
# usage: bash test.sh [--all] [--latest] [pytest arguments, such as -m "not slow" or tests/scoring]
#   --all     also the tests marked `full`: full-size models, long searches, many processes
#   --latest  the newest versions of all dependencies, in .venv-latest, instead of those in requirements.lock
# With pytest arguments it runs pytest alone.
set -euo pipefail
cd "$(dirname "$0")"
. .ci/environment.sh

all="" latest=""
while [ $# -gt 0 ]; do
  case "$1" in
    --all) all=yes ;;
    --latest) latest=--latest ;;
    *) break ;;
  esac
  shift
done
prepare_environment "[test,docs,serve,types]" "$latest"

# torch by pip, which finds a local CPU build where one lies; only the parity tests against transformers use it.
if ! "$venv/bin/python" -c 'import torch, transformers' 2>/dev/null; then
  versions=(--constraint requirements.lock)
  [ -z "$latest" ] || versions=()
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$(grep '^torch==' requirements.lock)"
  "$venv/bin/uv" pip install --quiet --compile-bytecode --python "$venv/bin/python" "${versions[@]}" -e ".[parity]"
fi

# The report and the rating page are tested in a real Chromium: the system's, Debian's, or playwright's.
if ! command -v chromium chromium-browser google-chrome >/dev/null; then
  { [ "$(id -u)" = 0 ] && apt-get install -y -qq --no-install-recommends chromium >/dev/null 2>&1; } \
    || "$venv/bin/playwright" install chromium >/dev/null 2>&1 \
    || echo "no Chromium to be had: the tests that need one will be skipped" >&2
fi

if [ $# -gt 0 ]; then
  exec "$venv/bin/pytest" ${all:+--all} "$@"
fi
"$venv/bin/ruff" check .
"$venv/bin/ruff" format --check .
"$venv/bin/basedpyright" --level error --pythonpath "$venv/bin/python"
NO_MKDOCS_2_WARNING=1 "$venv/bin/mkdocs" build --quiet --strict
# One process takes all tests of a file, so that what they share is made once; files with slow tests come first.
cores=$(nproc)
"$venv/bin/pytest" ${all:+--all} -m "not alone" -n "$((cores < 8 ? cores : 8))" --dist loadfile --no-loadscope-reorder
if [ -n "$all" ]; then
  exec "$venv/bin/pytest" --all -m alone
fi
