xpk workload list --cluster=pod --project=my-project --zone=us-central2-b --filter-by-job=bb
