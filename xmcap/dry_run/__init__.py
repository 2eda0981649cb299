"""Checks of a training run before it starts."""
