"""Inspection of a built corpus: check, show, statistics."""
