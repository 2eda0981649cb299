from tests.make.tiny_corpus import register, tiny, tiny_dir  # noqa: F401
