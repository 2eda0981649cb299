"""Own pictures: captions in the layouts that people have them in -> records."""
