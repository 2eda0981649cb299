#!/usr/bin/env bash
# Runs the tests that need t5x, with t5x and airio from two checkouts: neither is on a package index.
# usage: bash tests/t5x/run.sh T5X AIRIO [pytest arguments]
#   T5X, AIRIO  checkouts of google-research/t5x and google/airio (docs/t5x.md names the tested commits)
# Installs everything into .venv-t5x, beside which the checkouts are only read; run it again to test a change.
set -euo pipefail
if [ $# -lt 2 ]; then
  sed -n '2,5s/^# //p' "$0" >&2
  exit 2
fi
t5x=$(realpath "$1") airio=$(realpath "$2")
shift 2
for module in "$t5x/t5x/train.py" "$airio/airio/core.py"; do
  [ -e "$module" ] || { echo "$module is missing: give a checkout of t5x and one of airio" >&2; exit 2; }
done
cd "$(dirname "$0")/../.."

venv=.venv-t5x
wanted=$(cat setup.py requirements.lock "$0" | sha256sum)
if [ "$(cat "$venv/.installed" 2>/dev/null)" != "$wanted" ]; then
  "${PYTHON:-python3}" -m venv "$venv"
  . .ci/environment.sh
  install_uv
  # t5x needs pkg_resources, which the locked setuptools lacks.
  sed '/^setuptools==/,/[^\\]$/d' requirements.lock >"$venv/constraints.txt"
  "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --constraint "$venv/constraints.txt" -e ".[test]" \
    "setuptools<81" cached_property fiddle grain portpicker tensorboard
  # What t5x imports for the Amos optimizer alone; the released jestimator does not import with today's jax.
  stub=$("$venv/bin/python" -c "import sysconfig; print(sysconfig.get_path('purelib'))")/jestimator
  mkdir -p "$stub"
  touch "$stub/__init__.py"
  echo 'amos = ScaleByAmosState = None' >"$stub/amos.py"
  echo 'state_partition_rule = None' >"$stub/amos_helper.py"
  echo "$wanted" >"$venv/.installed"
fi
PYTHONPATH="$t5x:$airio${PYTHONPATH:+:$PYTHONPATH}" exec "$venv/bin/pytest" --all tests/t5x tests/training/test_adafactor.py "$@"
