# Copies a folder of a bucket to one worker of a TPU VM, where the command will run: ~/xmcap/NAME/files.
# Arguments: NAME gs://BUCKET/FOLDER. Files that are already there are not copied again.
# Sent unchanged as `bash -c SCRIPT xmcap ARGUMENTS`. Without single quotes, which would be hard to read there.
# shellcheck shell=bash
set -euo pipefail
folder=$HOME/xmcap/$1/files
mkdir -p "$folder"
gcloud storage rsync --recursive --quiet "$2" "$folder"
