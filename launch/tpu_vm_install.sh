# Installs xmcap on one worker of a TPU VM, in ~/xmcap/NAME/venv, unless this very package is there already.
# Arguments: NAME PYTHON KEY PACKAGE. KEY says which package this is; PACKAGE is a file in ~ or what pip accepts.
# Sent as `bash -c SCRIPT xmcap ARGUMENTS`: the text is never edited. No single quotes, which would read badly there.
# shellcheck shell=bash
set -euo pipefail
folder=$HOME/xmcap/$1
python=$2
key=$3
package=$4
mkdir -p "$folder"
if [ -e "$folder/installed" ] && [ "$(cat "$folder/installed")" = "$key" ]; then
  exit 0
fi
if [ -f "$HOME/$package" ]; then
  package=$HOME/$package
fi
PATH=$HOME/.local/bin:$PATH
# The TPU software brings Python 3.10; uv fetches the one that xmcap needs.
command -v uv >/dev/null || python3 -m pip install --quiet --user uv
rm -rf "$folder/venv" "$folder/installed"
uv venv --quiet --python "$python" "$folder/venv"
uv pip install --quiet --python "$folder/venv/bin/python" "$package" "jax[tpu]"
printf "%s" "$key" >"$folder/installed"
