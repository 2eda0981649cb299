"""Taggers of images by labels of a vocabulary, and tags as prompts of captions."""
