"""Checkpoints of a run: writing, reading and verifying them, and deciding where a run starts."""
