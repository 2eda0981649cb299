"""Rankings from embeddings: zero-shot classification, retrieval, matrices of scores, fusion."""
