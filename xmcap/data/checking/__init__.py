"""Looking at a built corpus: check, show, statistics."""
