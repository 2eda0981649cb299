"""Compares training runs by their logged metrics, in a table. Needs neither jax nor tensorflow."""
