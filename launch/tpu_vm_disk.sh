# Mounts the attached disk of one worker of a TPU VM, read-only, unless it is already mounted.
# Arguments: DISK LINKS FOLDERS. LINKS is the folder of the links to disks; the disk is mounted at FOLDERS/DISK.
# Sent unchanged as `bash -c SCRIPT xmcap ARGUMENTS`. Without single quotes, which would be hard to read there.
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
    # No worker may replay the journal of a disk that others read too.
    exec sudo mount -o ro,noload "$link" "$folder"
  fi
done
echo "xmcap: the disk $1 is not attached to $(hostname): disks are attached when a TPU VM is created (--action=delete, then run)" >&2
exit 1
