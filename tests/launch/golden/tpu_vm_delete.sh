# delete
gcloud compute tpus queued-resources delete bb --project=my-project --zone=us-central2-b --force --quiet
