"""Word2VisualVec: texts embedded into the space of pictures' features (Dong et al., TMM 2018)."""
