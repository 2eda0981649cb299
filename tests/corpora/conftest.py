from tests.make.drawn_emoji import source  # noqa: F401
