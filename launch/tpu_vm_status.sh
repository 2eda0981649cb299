# Prints the state of the command on one worker of a TPU VM: `xmcap-status HOST running|exited|lost|absent CODE`, and
# when the TPU VM deletes itself, if it does: `xmcap-deletion HOST SECONDS-SINCE-1970 DATE`.
# Arguments: NAME. Lost: the worker was restarted, or the process was killed together with its supervisor.
# Sent unchanged as `bash -c SCRIPT xmcap ARGUMENTS`. Without single quotes, which would be hard to read there.
# shellcheck shell=bash
set -euo pipefail
folder=$HOME/xmcap/$1
state=absent
code=-
if [ -e "$folder/exit_code" ]; then
  state=exited
  code=$(cat "$folder/exit_code")
elif [ -e "$folder/process" ]; then
  read -r boot process <"$folder/process"
  state=lost
  if [ "$boot" = "$(cat /proc/sys/kernel/random/boot_id)" ] && kill -0 "$process" 2>/dev/null; then
    state=running
  fi
fi
echo "xmcap-status $(hostname) $state $code"
if [ -e "$folder/delete_at" ]; then
  at=$(cat "$folder/delete_at")
  echo "xmcap-deletion $(hostname) $at $(date -u -d "@$at" +%Y-%m-%dT%H:%M:%SZ)"
fi
