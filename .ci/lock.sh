#!/usr/bin/env bash
# Writes requirements.lock and requirements-beam.lock anew: the newest versions of all that setup.py
# asks for, of each package one version for all Pythons where that is possible, and the sha256 of all its files.
# Run `bash test.sh` afterwards, and commit the locks if it passes. Needs uv (`.venv/bin/uv` will do).
# usage: bash .ci/lock.sh [options of uv pip compile, such as --upgrade-package jax]
set -euo pipefail
cd "$(dirname "$0")/.."
uv=$(command -v .venv/bin/uv uv | head -n 1)

lock() {  # lock FILE EXTRAS [options]
  local file="$1" extras="$2" extra options=()
  shift 2
  for extra in $extras; do
    options+=(--extra "$extra")
  done
  "$uv" pip compile --quiet --universal --python-version 3.11 --no-annotate --no-emit-index-url --no-header \
    --generate-hashes --fork-strategy fewest --constraint .ci/lock-constraints.txt "${options[@]}" "$@" setup.py \
    --output-file "$file"
  # The same on every line: the environments that pyproject.toml names.
  sed -i "s/ ; python_full_version < '3.14' and sys_platform == 'linux' \\\\\$/ \\\\/" "$file"
}

[ $# -gt 0 ] || set -- --upgrade
lock requirements.lock "all cuda docs parity plan test types" "$@"
# Beam asks for older packages than the others; t5x comes from its repository and is not locked.
lock requirements-beam.lock "beam" "$@"
