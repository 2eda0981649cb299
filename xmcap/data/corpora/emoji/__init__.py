"""emoji36: scenes of emoji and captions in 36 languages, drawn on the spot."""
