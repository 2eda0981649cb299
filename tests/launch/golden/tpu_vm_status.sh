# status
gcloud compute tpus tpu-vm describe bb --project=my-project --zone=us-central2-b --format='value(state)'
# status
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
