"""Readers of captions, tags, embeddings and document frequencies: one for each layout, strict and with limits."""
