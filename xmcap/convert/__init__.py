"""Weights from and to other code bases, tensor by tensor; one file a format."""
