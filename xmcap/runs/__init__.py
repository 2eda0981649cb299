"""What runs have written about themselves, side by side: a table, or a page of curves. Neither jax nor tensorflow."""
