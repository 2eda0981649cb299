"""The corpora: one file each, with a function that builds it as records and releases."""
