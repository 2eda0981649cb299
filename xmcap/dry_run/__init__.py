"""Dry runs: checks of a training run before it starts."""
