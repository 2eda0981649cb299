"""Published corpora, one file each."""
