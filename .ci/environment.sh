# shellcheck shell=bash disable=SC2034  # `venv` is for those who source this.
# Sourced by quickstart.sh and test.sh: one environment in the checkout, made once and then reused.
# usage: . .ci/environment.sh; prepare_environment EXTRAS [--latest]     (EXTRAS: such as "[train]" or "[test,docs]")
#
# Installs the versions in requirements.lock into .venv; with --latest the newest ones into .venv-latest. Sets `venv` to
# the folder. PYTHON names the interpreter; by default it is the first of Python 3.11 to 3.13 that is found.

prepare_environment() {
  local extras="$1" stamp wanted python versions
  if [ "${2:-}" = --latest ]; then
    venv=.venv-latest
    versions=(--upgrade)
  else
    venv=.venv
    versions=(--constraint requirements.lock)
  fi
  stamp="$venv/.xmcap-installed${extras//[^a-z]/-}"
  wanted=$(cat setup.py pyproject.toml requirements.lock .ci/environment.sh | sha256sum)
  if [ -x "$venv/bin/xmcap" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && is_wanted_python "$venv/bin/python"; then
    return 0
  fi
  echo "== setting up $venv (once; about a minute)"
  if [ ! -x "$venv/bin/python" ] || ! is_wanted_python "$venv/bin/python"; then
    python=$(supported_python) || return 1
    if ! "$python" -m venv --clear "$venv"; then
      echo "$python cannot make $venv: on Debian, install python3-venv; then start again" >&2
      return 1
    fi
  fi
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check uv || return 1
  "$venv/bin/uv" pip install --quiet --compile-bytecode --python "$venv/bin/python" "${versions[@]}" -e ".$extras" || return 1
  echo "$wanted" >"$stamp"
}

# Whether an environment's Python is of the version that PYTHON asks for, if it asks.
is_wanted_python() {
  local version='import sys; print(sys.version_info[:2])'
  [ -z "${PYTHON:-}" ] || [ "$("$1" -c "$version")" = "$("$PYTHON" -c "$version")" ]
}

# Prints an interpreter of Python 3.11 to 3.13.
supported_python() {
  local python
  for python in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
    if "$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; then
      echo "$python"
      return 0
    fi
  done
  echo "xmcap needs Python 3.11, 3.12 or 3.13; ${PYTHON:-python3} is $(${PYTHON:-python3} --version 2>&1). Name another by PYTHON=PATH" >&2
  return 1
}
