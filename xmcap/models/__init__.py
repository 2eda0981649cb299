"""The models: ViT, T5 and the captioner and tagger made of them, in Flax Linen; and decoding."""
