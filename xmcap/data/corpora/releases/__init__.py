"""The corpora that were published: one file each."""
