# Prints the log of the command on one worker of a TPU VM.
# Arguments: NAME: follows the log; NAME BYTE: prints the log from that byte on, counted from 1, or its last megabyte if
# that is less, after a line with the number of the first byte that follows.
# Sent unchanged as `bash -c SCRIPT xmcap ARGUMENTS`. Without single quotes, which would be hard to read there.
# shellcheck shell=bash
set -eu
log=$HOME/xmcap/$1/log
if [ "$#" = 1 ]; then
  exec tail -n 200 -F "$log"
fi
if [ -e "$log" ]; then
  size=$(stat -c %s "$log")
  first=$2
  if ((size - first >= 1000000)); then
    first=$((size - 999999))
  fi
  echo "$first"
  tail -c "+$first" "$log" | head -c $((size - first + 1))
fi
