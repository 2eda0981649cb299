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
# The TPU software has Python 3.10, which is too old for xmcap.
command -v uv >/dev/null || python3 -m pip install --quiet --user uv
rm -rf "$folder/venv" "$folder/installed"
uv venv --quiet --python 3.12 "$folder/venv"
options=(--quiet --python "$folder/venv/bin/python")
# The package alone first: it holds the versions that it was tested with.
uv pip install "${options[@]}" --no-deps "$package"
for lock in "$folder"/venv/lib/python*/site-packages/xmcap/launch_scripts/requirements.lock; do
  if [ -f "$lock" ]; then
    options+=(--constraint "$lock")
  else
    echo "xmcap: this package has no requirements.lock: the newest versions are installed on $(hostname)" >&2
  fi
done
# What trains is an extra of the package, also of one whose address has no name; no index is asked for xmcap then.
packages=("xmcap[train]" "$package" "jax[tpu]")
uv pip install "${options[@]}" "${packages[@]}"
printf "%s" "$key" >"$folder/installed"
