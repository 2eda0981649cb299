# Mounts the attached disk of one worker of a TPU VM, read-only, unless it is mounted there already.
# Arguments: DISK LINKS FOLDERS. LINKS is the folder of the links to disks; it is mounted at FOLDERS/DISK.
# Sent as `bash -c SCRIPT xmcap ARGUMENTS`: the text is never edited. No single quotes, which would read badly there.
# shellcheck shell=bash
set -euo pipefail
folder=$3/$1
if mountpoint -q "$folder"; then
  exit 0
fi
# A TPU VM names its first attached disk by number.
for link in "$2/google-$1" "$2/google-persistent-disk-1"; do
  if [ -e "$link" ]; then
    sudo mkdir -p "$folder"
    # Of a disk that many workers read, none may replay the journal.
    exec sudo mount -o ro,noload "$link" "$folder"
  fi
done
echo "xmcap: the disk $1 is not attached to $(hostname): a TPU VM gets it when it is created (--action=delete, then run)" >&2
exit 1
