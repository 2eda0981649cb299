"""Dual towers of images and texts: contrastive training, pretrained towers, embeddings, retrieval, zero-shot."""
