# Ends the command on one worker of a TPU VM: SIGTERM, after which it saves, then SIGKILL.
# Arguments: NAME SECONDS between the two.
# Sent unchanged as `bash -c SCRIPT xmcap ARGUMENTS`. Without single quotes, which would be hard to read there.
# shellcheck shell=bash
set -euo pipefail
folder=$HOME/xmcap/$1
if [ ! -e "$folder/process" ] || [ -e "$folder/exit_code" ]; then
  exit 0
fi
read -r boot process <"$folder/process"
if [ "$boot" != "$(cat /proc/sys/kernel/random/boot_id)" ] || ! kill -TERM -- "-$process" 2>/dev/null; then
  exit 0
fi
for ((tenth = 0; tenth < 10 * $2; tenth++)); do
  if [ -e "$folder/exit_code" ]; then
    exit 0
  fi
  sleep 0.1
done
kill -KILL -- "-$process" 2>/dev/null || true
