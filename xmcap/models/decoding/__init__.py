"""Decoding captions: searches with a key-value cache."""
