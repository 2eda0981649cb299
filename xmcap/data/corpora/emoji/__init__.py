"""emoji36 and emoji100: generated scenes of emoji with captions in 36 or 101 languages."""
