"""The captioner under the t5x trainer, and its checkpoints both ways."""
