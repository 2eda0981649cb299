"""Own images: builds records from images and captions in common layouts."""
