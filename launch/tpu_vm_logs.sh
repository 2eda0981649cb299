# Prints the log of the command on one worker of a TPU VM.
# Arguments: NAME: follows it; NAME BYTE: at most a megabyte from that byte on, the first being 1.
# Sent as `bash -c SCRIPT xmcap ARGUMENTS`: the text is never edited. No single quotes, which would read badly there.
# shellcheck shell=bash
set -eu
log=$HOME/xmcap/$1/log
if [ "$#" = 1 ]; then
  exec tail -n 200 -F "$log"
fi
if [ -e "$log" ]; then
  tail -c "+$2" "$log" | head -c 1000000
fi
