"""Training: one loop for every objective, on one device or a pod."""
