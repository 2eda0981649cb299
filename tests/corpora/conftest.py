from tests.make.drawn_emoji import source  # noqa: F401
from tests.make.tiny_corpus import register, tiny, tiny_dir  # noqa: F401
