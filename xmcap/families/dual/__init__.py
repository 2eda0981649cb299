"""Dual towers of pictures and texts: contrastive training, pretrained towers, embeddings, retrieval, zero-shot."""
