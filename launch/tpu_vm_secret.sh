# Puts a secret on one worker of a TPU VM, readable for its user alone: ~/xmcap/NAME/secrets/VARIABLE.
# Arguments: NAME VARIABLE SOURCE. SOURCE is a file in ~, which is moved, or sm://SECRET in Secret Manager.
# Sent unchanged as `bash -c SCRIPT xmcap ARGUMENTS`. Without single quotes, which would be hard to read there.
# shellcheck shell=bash
set -euo pipefail
folder=$HOME/xmcap/$1/secrets
umask 077
mkdir -p "$folder"
case $3 in
  sm://*/*) gcloud secrets versions access "${3#sm://}" --quiet >"$folder/$2.part" ;;
  sm://*) gcloud secrets versions access latest --secret="${3#sm://}" --quiet >"$folder/$2.part" ;;
  *) mv "$HOME/$3" "$folder/$2.part" ;;
esac
chmod 600 "$folder/$2.part"
mv "$folder/$2.part" "$folder/$2"
