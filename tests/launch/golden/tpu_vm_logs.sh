# logs
gcloud compute tpus tpu-vm ssh bb --project=my-project --zone=us-central2-b --worker=3 --quiet --command='bash -c '"'"'set -eu
log=$HOME/xmcap/$1/log
if [ "$#" = 1 ]; then
  exec tail -n 200 -F "$log"
fi
if [ -e "$log" ]; then
  tail -c "+$2" "$log" | head -c 1000000
fi
'"'"' xmcap bb'
