# Starts the command on one worker of a TPU VM, detached, unless it is already running.
# Arguments: NAME COMMAND... It runs in ~/xmcap/NAME/files; the output goes to ~/xmcap/NAME/log, the exit code to ~/xmcap/NAME/exit_code.
# Sent unchanged as `bash -c SCRIPT xmcap ARGUMENTS`. Without single quotes, which would be hard to read there.
# shellcheck shell=bash
set -euo pipefail
folder=$HOME/xmcap/$1
shift
boot=$(cat /proc/sys/kernel/random/boot_id)
mkdir -p "$folder/files"
if [ -e "$folder/process" ] && [ ! -e "$folder/exit_code" ]; then
  read -r last_boot last <"$folder/process"
  if [ "$last_boot" = "$boot" ] && kill -0 "$last" 2>/dev/null; then
    exit 0
  fi
fi
rm -f "$folder/exit_code"
PATH=$folder/venv/bin:$PATH
# A process group of its own: it outlives the connection and can be stopped as a whole.
set -m
(
  trap "" HUP
  trap : TERM
  code=0
  cd "$folder/files"
  "$@" </dev/null >>"$folder/log" 2>&1 || code=$?
  echo "$code" >"$folder/exit_code.part"
  mv "$folder/exit_code.part" "$folder/exit_code"
) </dev/null >/dev/null 2>&1 &
echo "$boot $!" >"$folder/process"
