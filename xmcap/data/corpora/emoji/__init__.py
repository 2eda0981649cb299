"""emoji36: real pictures and captions in 36 languages, made on the spot."""
