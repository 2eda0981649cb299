#!/usr/bin/env bash
# Installs xmcap into .venv, checks style, types and documentation, and runs the tests on up to 8 cores.
# usage: bash test.sh [--all] [--latest] [pytest arguments, such as -m "not slow" or tests/scoring]
#   --all     also runs the tests marked `full`: full-size models, long searches, many processes
#   --latest  uses the newest versions of all dependencies, in .venv-latest, instead of those in requirements.lock
# With pytest arguments, only pytest runs.
set -euo pipefail
cd "$(dirname "$0")"
. .ci/environment.sh

# Hundreds of processes import the same modules: the first keeps its bytecode for the others.
unset PYTHONDONTWRITEBYTECODE

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

# Only tests against transformers, torchmetrics and bert_score need torch: PyTorch's build without CUDA, where pip finds it.
if ! "$venv/bin/python" -c 'import bert_score, torch, torchmetrics, transformers' 2>/dev/null; then
  if [ -n "$latest" ]; then
    "$venv/bin/uv" pip install --quiet --compile-bytecode --python "$venv/bin/python" -e ".[parity]"
  else
    torch=("$(grep -o '^torch==[^ ]*' requirements.lock)")
    if "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
      --requirement .ci/torch-cpu.lock 2>/dev/null; then
      torch=(--constraint .ci/torch-cpu.lock "$(grep -o '^torch==[^ ]*' .ci/torch-cpu.lock)")
    fi
    mapfile -t peers < <(grep -oE '^(bert-score|torchmetrics|transformers)==[^ ]*' requirements.lock)
    install_hashed "${torch[@]}" "${peers[@]}"
  fi
  # The package index's torch brings triton; its LLVM and that of jax 0.12 end a process that loads both.
  "$venv/bin/uv" pip uninstall --quiet --python "$venv/bin/python" triton 2>/dev/null || true
fi

# The HTML pages are tested in Chromium: the system's, Debian's, or playwright's.
if ! command -v chromium chromium-browser google-chrome >/dev/null; then
  { [ "$(id -u)" = 0 ] && apt-get install -y -qq --no-install-recommends chromium >/dev/null 2>&1; } \
    || "$venv/bin/playwright" install chromium >/dev/null 2>&1 \
    || echo "Chromium could not be installed: the tests that need it will be skipped" >&2
fi

if [ $# -gt 0 ]; then
  exec "$venv/bin/pytest" ${all:+--all} "$@"
fi
"$venv/bin/ruff" check .
"$venv/bin/ruff" format --check .
NO_MKDOCS_2_WARNING=1 "$venv/bin/mkdocs" build --quiet --strict & pages=$!
"$venv/bin/basedpyright" --level error --pythonpath "$venv/bin/python"
wait "$pages"
# One process runs all tests of a file, so that they share fixtures; files with slow tests come first. There is one more
# than there are cores, because some tests wait for other processes or for a time limit.
cores=$(nproc)
"$venv/bin/pytest" ${all:+--all} -m "not alone" -n "$((cores < 8 ? cores + 1 : 8))" --dist loadfile --no-loadscope-reorder
if [ -n "$all" ]; then
  exec "$venv/bin/pytest" --all -m alone
fi
