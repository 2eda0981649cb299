"""Captions of any vision-language model behind an OpenAI-compatible endpoint; needs neither jax nor TensorFlow."""
