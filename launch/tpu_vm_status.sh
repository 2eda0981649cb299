# Prints how the command is on one worker of a TPU VM: `xmcap-status HOST running|exited|lost|absent CODE`.
# Arguments: NAME. Lost: the worker was started again, or the process was killed together with its keeper.
# Sent as `bash -c SCRIPT xmcap ARGUMENTS`: the text is never edited. No single quotes, which would read badly there.
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
