from tests.make.tiny_corpus import register, tiny_dir  # noqa: F401
