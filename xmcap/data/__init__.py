"""Records of images and their captions, and the batches that are made of them."""
