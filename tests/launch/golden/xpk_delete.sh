xpk workload delete --cluster=pod --project=my-project --zone=us-central2-b --workload=bb
