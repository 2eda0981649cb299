# stop
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
