"""Checkpoints of a run: written, read, verified; and where a run starts."""
