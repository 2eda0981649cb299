"""Compares training runs by their logged metrics, in a table or a page of curves. Needs neither jax nor tensorflow."""
