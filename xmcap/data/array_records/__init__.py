"""Random access to ArrayRecord files, local or in a bucket."""
