"""One training loop for every objective, on one device or a pod."""
