"""emoji36, emoji100 and emoji_tags: generated scenes of emoji with captions, and tags, in 36 or 101 languages."""
