# Sourced by quickstart.sh and test.sh: one environment, .venv in the checkout, made once and then reused.
# usage: . .ci/environment.sh; prepare_environment EXTRAS     (EXTRAS: "" or "[test]")

prepare_environment() {
  local extras="$1" stamp wanted
  stamp=".venv/.xmcap-installed${extras//[^a-z]/-}"
  wanted=$(cat setup.py pyproject.toml .ci/environment.sh | sha256sum)
  if [ -x .venv/bin/xmcap ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
    return 0
  fi
  echo "== setting up .venv (once; about a minute)"
  if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "xmcap needs Python 3.11 or later as python3; this is $(python3 --version 2>&1)" >&2
    return 1
  fi
  if [ ! -x .venv/bin/python ] && ! python3 -m venv .venv; then
    echo "python3 cannot make .venv here: on Debian, install python3-venv; then start again" >&2
    return 1
  fi
  .venv/bin/python -m pip install --quiet --disable-pip-version-check uv || return 1
  .venv/bin/uv pip install --quiet --python .venv/bin/python -e ".$extras" || return 1
  echo "$wanted" >"$stamp"
}
