"""Captions from a captioner: searches over a key-value cache."""
