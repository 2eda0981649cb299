"""Own pictures: builds records from pictures and captions in common layouts."""
