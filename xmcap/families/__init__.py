"""Families of models beside the captioner, a folder each, which gin names and which can be deleted."""
