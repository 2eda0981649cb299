# create the slice, unless it is there
gcloud compute tpus queued-resources create bb --project=my-project --zone=us-central2-b --accelerator-type=v4-128 --runtime-version=tpu-ubuntu2204-base --node-id=bb --data-disk=source=projects/my-project/zones/us-central2-b/disks/records,mode=read-only --quiet
# every 30 seconds, until it says ACTIVE
gcloud compute tpus queued-resources describe bb --project=my-project --zone=us-central2-b --format='value(state.state)'
# every 30 seconds, until it says READY
gcloud compute tpus tpu-vm describe bb --project=my-project --zone=us-central2-b --format='value(state)'
# install xmcap on all workers
gcloud compute tpus tpu-vm ssh bb --project=my-project --zone=us-central2-b --worker=all --quiet --command='bash -c '"'"'set -euo pipefail
folder=$HOME/xmcap/$1
python=$2
key=$3
package=$4
mkdir -p "$folder"
if [ -e "$folder/installed" ] && [ "$(cat "$folder/installed")" = "$key" ]; then
  exit 0
fi
if [ -f "$HOME/$package" ]; then
  package=$HOME/$package
fi
PATH=$HOME/.local/bin:$PATH
# The TPU software brings Python 3.10; uv fetches the one that xmcap needs.
command -v uv >/dev/null || python3 -m pip install --quiet --user uv
rm -rf "$folder/venv" "$folder/installed"
uv venv --quiet --python "$python" "$folder/venv"
uv pip install --quiet --python "$folder/venv/bin/python" "$package" "jax[tpu]"
printf "%s" "$key" >"$folder/installed"
'"'"' xmcap bb 3.12 '"'"'3.12 git+https://github.com/example/xmcap@v1'"'"' git+https://github.com/example/xmcap@v1'
# mount the disk on all workers
gcloud compute tpus tpu-vm ssh bb --project=my-project --zone=us-central2-b --worker=all --quiet --command='bash -c '"'"'set -euo pipefail
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
'"'"' xmcap records /dev/disk/by-id /mnt/disks'
# start the command on all workers
gcloud compute tpus tpu-vm ssh bb --project=my-project --zone=us-central2-b --worker=all --quiet --command='bash -c '"'"'set -euo pipefail
folder=$HOME/xmcap/$1
shift
boot=$(cat /proc/sys/kernel/random/boot_id)
mkdir -p "$folder/files"
if [ -e "$folder/process" ] && [ ! -e "$folder/exit_code" ]; then
  read -r last_boot last <"$folder/process"
  if [ "$last_boot" = "$boot" ] && kill -0 "$last" 2>/dev/null; then
    exit 0
  fi
fi
rm -f "$folder/exit_code"
PATH=$folder/venv/bin:$PATH
# A process group of its own: it outlives the connection and can be stopped as a whole.
set -m
(
  trap "" HUP
  trap : TERM
  code=0
  cd "$folder/files"
  "$@" </dev/null >>"$folder/log" 2>&1 || code=$?
  echo "$code" >"$folder/exit_code.part"
  mv "$folder/exit_code.part" "$folder/exit_code"
) </dev/null >/dev/null 2>&1 &
echo "$boot $!" >"$folder/process"
'"'"' xmcap bb xmcap train --gin_file=runs/pretrain_cc3m35l.gin --gin.DATA_DIR=/mnt/disks/records/cc3m35l'
# every 30 seconds, how it is on all workers
gcloud compute tpus tpu-vm ssh bb --project=my-project --zone=us-central2-b --worker=all --quiet --command='bash -c '"'"'set -euo pipefail
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
'"'"' xmcap bb'
# every 30 seconds, the log of worker 0 from the byte not yet printed on
gcloud compute tpus tpu-vm ssh bb --project=my-project --zone=us-central2-b --worker=0 --quiet --command='bash -c '"'"'set -eu
log=$HOME/xmcap/$1/log
if [ "$#" = 1 ]; then
  exec tail -n 200 -F "$log"
fi
if [ -e "$log" ]; then
  tail -c "+$2" "$log" | head -c 1000000
fi
'"'"' xmcap bb 1'
# after exit code 75, a death by a signal or a lost worker; then all from the top, at most 10 times
stop() {
gcloud compute tpus tpu-vm ssh bb --project=my-project --zone=us-central2-b --worker=all --quiet --command='bash -c '"'"'set -euo pipefail
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
'"'"' xmcap bb 120'
}
# after a preemption; then all from the top too
delete() {
gcloud compute tpus queued-resources delete bb --project=my-project --zone=us-central2-b --force --quiet
}
