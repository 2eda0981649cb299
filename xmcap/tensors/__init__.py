"""Tensors in files, read one at a time."""
