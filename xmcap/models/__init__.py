"""Models in Flax Linen: ViT, T5, captioner, tagger and dual tower; and decoding."""
