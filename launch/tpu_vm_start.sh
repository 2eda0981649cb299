# Starts the command on one worker of a TPU VM, detached, unless it is already running.
# Arguments: NAME LOGS COMMAND... It runs in ~/xmcap/NAME/files; the output goes to ~/xmcap/NAME/log, the exit code to
# ~/xmcap/NAME/exit_code. LOGS is a folder of a bucket to which the log is copied every minute, or empty.
# Sent unchanged as `bash -c SCRIPT xmcap ARGUMENTS`. Without single quotes, which would be hard to read there.
# shellcheck shell=bash
set -euo pipefail
folder=$HOME/xmcap/$1
logs=$2
shift 2
boot=$(cat /proc/sys/kernel/random/boot_id)
mkdir -p "$folder/files"
if [ -e "$folder/process" ] && [ ! -e "$folder/exit_code" ]; then
  read -r last_boot last <"$folder/process"
  if [ "$last_boot" = "$boot" ] && kill -0 "$last" 2>/dev/null; then
    exit 0
  fi
fi
rm -f "$folder/exit_code"
# A slice that is created anew has new, empty logs, which must not replace the old ones.
if [ ! -e "$folder/label" ]; then
  echo "$(date -u +%Y%m%d-%H%M%S)-$(hostname)" >"$folder/label"
fi
label=$(cat "$folder/label")
for file in "$folder"/secrets/*; do
  if [ -f "$file" ]; then
    export "${file##*/}=$(cat "$file")"
  fi
done
PATH=$folder/venv/bin:$PATH
copy_log() {
  local size
  size=$(stat -c %s "$folder/log" 2>/dev/null || echo 0)
  if [ -n "$logs" ] && [ "$size" != "${copied:-0}" ]; then
    timeout 60 gcloud storage cp --quiet "$folder/log" "$logs/$label.log" >/dev/null 2>&1 && copied=$size
  fi
}
# A process group of its own: it outlives the connection and can be stopped as a whole.
set -m
(
  trap "" HUP
  trap : TERM
  code=0
  cd "$folder/files"
  while sleep 60; do copy_log || true; done &
  copier=$!
  "$@" </dev/null >>"$folder/log" 2>&1 || code=$?
  kill "$copier" 2>/dev/null || true
  # Before the exit code, after which the machine may be deleted.
  copy_log || true
  echo "$code" >"$folder/exit_code.part"
  mv "$folder/exit_code.part" "$folder/exit_code"
) </dev/null >/dev/null 2>&1 &
echo "$boot $!" >"$folder/process"
