"""A run checked before it is paid for."""
