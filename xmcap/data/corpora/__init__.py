"""The corpora: a class each, which lists pictures and captions, and the engine that makes records of them."""
