"""Readers of captions, tags and embeddings: one for each layout, strict and with limits."""
