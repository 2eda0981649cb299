"""Readers and writers of tensor files that handle one tensor at a time."""
