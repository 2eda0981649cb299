"""Options of the generated corpora: bounds, presets, and what tells two builds apart."""

import pytest

from xmcap.corpora.emoji.options import Emoji36Options, EmojiTagsOptions, SceneOptions
from xmcap.errors import UsageError


@pytest.mark.parametrize(
  ("options", "message"),
  [
    ({"min_size": 0.5, "max_size": 0.4}, "min_size=0.5"),
    ({"max_size": 1.5}, "max_size=1.5"),
    ({"jitter": -0.1}, "jitter=-0.1"),
    ({"background": "lava"}, "background=lava"),
    ({"difficulty": "extreme"}, "unknown difficulty 'extreme'"),
    ({"image_size": 8}, "image_size=8: must be at least 16"),
    ({"num_emoji": 4}, "num_emoji=4: must be at least 5"),
    ({"seed": -1}, "seed=-1: must be at least 0"),
  ],
)
def test_bad_options_are_usage_errors(options, message):
  with pytest.raises(UsageError, match=message):
    Emoji36Options(**options)


def test_difficulty_with_a_change():
  options = Emoji36Options(difficulty="hard", jitter=0.2, contrast=None)
  assert options.scene == SceneOptions(0.2, 0.5, 0.2, 0.15, "noise", 1.0)


def test_plan_has_what_a_built_corpus_stores():
  plan = EmojiTagsOptions(num_human=7, seed=3).plan("num_emoji", "least", "source")
  assert plan == {
    "num_emoji": 300,
    "pictures": {"train_mt": 20_000, "train": 7, "val": 500, "test": 1_000},
    "least": 20,
    "image_size": 64,
    "seed": 3,
    "scenes": {
      "min_size": 0.3, "max_size": 0.42, "jitter": 0.7, "overlap": 0.06, "background": "mixed", "contrast": 0.4,
    },
    "source": "auto",
  }  # fmt: skip
