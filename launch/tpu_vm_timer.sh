# Lets a TPU VM delete itself at a time, also when nobody follows the run: a loop that outlives the connection.
# Arguments: NAME WHEN TIME GRACE URL. TIME is in seconds since 1970; it replaces an earlier one if WHEN is `now`, but
# not if it is `boot`. The run on this worker is stopped, and after GRACE seconds, in which all workers save, URL (a
# queued resource or a node of the TPU API) is deleted. Fails if the service account must not do that.
# Sent unchanged as `bash -c SCRIPT xmcap ARGUMENTS`. Without single quotes, which would be hard to read there.
# shellcheck shell=bash
set -euo pipefail
export HOME=${HOME:-/root} # a startup script has none
name=$1
time=$3
folder=$HOME/xmcap/$name
grace=$4
url=$5
mkdir -p "$folder"
if [ "$2" = now ] || [ ! -e "$folder/delete_at" ]; then
  echo "$time" >"$folder/delete_at.part"
  mv "$folder/delete_at.part" "$folder/delete_at"
fi
# Sends DELETE as the service account of the worker; prints the HTTP status.
delete() {
  local answer
  answer=$(curl --silent --max-time 30 --header "Metadata-Flavor: Google" \
    http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token || true)
  if [[ $answer =~ \"access_token\":\ *\"([^\"]+)\" ]]; then
    # The token by standard input, because all can read command lines.
    curl --silent --max-time 60 --output /dev/null --write-out "%{http_code}" --request DELETE --header @- "$1" \
      <<<"Authorization: Bearer ${BASH_REMATCH[1]}" || true
  else
    printf "no token"
  fi
}
boot=$(cat /proc/sys/kernel/random/boot_id)
last_boot=
if [ -e "$folder/timer" ]; then
  read -r last_boot last <"$folder/timer"
fi
if [ "$last_boot" != "$boot" ] || ! kill -0 "$last" 2>/dev/null; then
  set -m
  (
    trap "" HUP
    set +e
    while true; do
      # The newest time of all users of this worker.
      newest=$(find "$HOME/xmcap/$name" /home/*/xmcap/"$name" -maxdepth 1 -name delete_at -printf "%T@ %p\n" 2>/dev/null |
        sort -n | tail -n 1)
      at=$(cat "${newest#* }" 2>/dev/null)
      if ! [[ $at =~ ^[0-9]+$ ]]; then
        at=$time
      fi
      left=$((at - $(date +%s)))
      if ((left <= 0)); then
        break
      fi
      sleep $((left < 20 ? left : 20))
    done
    for file in "$HOME/xmcap/$name/process" /home/*/xmcap/"$name/process"; do
      if [ -e "$file" ] && read -r run_boot run <"$file" && [ "$run_boot" = "$boot" ]; then
        kill -TERM -- "-$run" 2>/dev/null
      fi
    done
    sleep "$grace"
    pause=10
    while true; do
      delete "$url"
      sleep "$pause"
      pause=$((pause < 600 ? 2 * pause : 600))
    done
  ) </dev/null >/dev/null 2>&1 &
  echo "$boot $!" >"$folder/timer"
fi
# Who may delete is told that there is no such thing; nothing has this name.
status=$(delete "${url%/*}/xmcap-$RANDOM$RANDOM$RANDOM")
if [ "$status" != 404 ]; then
  echo "xmcap: the TPU API answers the service account with: $status" >&2
  exit 1
fi
