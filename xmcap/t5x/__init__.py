"""The captioner under the t5x trainer; and conversion of checkpoints in both directions."""
