"""The corpora, one class each, which list pictures and captions; and the code that builds records from them."""
