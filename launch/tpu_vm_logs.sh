# Prints the log of the command on one worker of a TPU VM.
# Arguments: NAME: follows the log; NAME BYTE: prints at most a megabyte from that byte on, counted from 1.
# Sent unchanged as `bash -c SCRIPT xmcap ARGUMENTS`. Without single quotes, which would be hard to read there.
# shellcheck shell=bash
set -eu
log=$HOME/xmcap/$1/log
if [ "$#" = 1 ]; then
  exec tail -n 200 -F "$log"
fi
if [ -e "$log" ]; then
  tail -c "+$2" "$log" | head -c 1000000
fi
