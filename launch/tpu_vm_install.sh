# Installs xmcap on one worker of a TPU VM, in ~/xmcap/NAME/venv, unless this package is already installed.
# Arguments: NAME PYTHON KEY PACKAGE. KEY identifies the package; PACKAGE is a file in ~ or an argument of pip install.
# Sent unchanged as `bash -c SCRIPT xmcap ARGUMENTS`. Without single quotes, which would be hard to read there.
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
# The TPU software has Python 3.10; uv installs the version that xmcap needs.
command -v uv >/dev/null || python3 -m pip install --quiet --user uv
rm -rf "$folder/venv" "$folder/installed"
uv venv --quiet --python "$python" "$folder/venv"
uv pip install --quiet --python "$folder/venv/bin/python" "$package" "jax[tpu]"
printf "%s" "$key" >"$folder/installed"
