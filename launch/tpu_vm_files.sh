# Copies a folder of a bucket to one worker of a TPU VM, where the command will run: ~/xmcap/NAME/files.
# Arguments: NAME gs://BUCKET/FOLDER. What is there already is not copied again.
# Sent as `bash -c SCRIPT xmcap ARGUMENTS`: the text is never edited. No single quotes, which would read badly there.
# shellcheck shell=bash
set -euo pipefail
folder=$HOME/xmcap/$1/files
mkdir -p "$folder"
gcloud storage rsync --recursive --quiet "$2" "$folder"
