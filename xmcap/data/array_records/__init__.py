"""ArrayRecord files: any record by its position, on this machine or in a bucket."""
