"""Word2VisualVec: texts embedded into the space of images' features (Dong et al., TMM 2018)."""
