"""The generated corpora, each a preset of one builder. The command line reads them, so this module must stay light."""

import dataclasses

from xmcap.errors import UsageError


@dataclasses.dataclass(frozen=True)
class SceneOptions:
  """The variability of scenes. Lengths are shares of the image's side.

  Attributes:
    min_size, max_size: range of the longer side of an emoji, drawn uniformly; if a row of emoji is wider than the
      image plus `overlap`, the emoji shrink until they fit.
    jitter: 0: evenly spaced on the middle line; 1: anywhere inside the image, in reading order.
    overlap: how much wider than the image a row of emoji may be; neighbours then overlap a little.
  """

  min_size: float
  max_size: float
  jitter: float
  overlap: float


DIFFICULTIES = {
  "easy": SceneOptions(min_size=0.32, max_size=0.36, jitter=0.15, overlap=0.0),
  "medium": SceneOptions(min_size=0.3, max_size=0.42, jitter=0.7, overlap=0.06),
}
"""`easy`: emoji of nearly one size at nearly fixed places."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Preset:
  """A generated corpus; UsageError for an unknown difficulty.

  Attributes:
    name: of the corpus.
    summary, details: what the command line says of it.
    num_emoji: number of classes that training shows.
    num_held_out: number of classes that only the split `held_out` shows.
    num_mt: images of the split `train_mt`.
    num_train, num_validation, num_test: images of the splits `train`, `validation` and `test`.
    validation: name of the split for validation.
    num_each: images of each class in the splits that show one emoji alone.
    least: least number of training images of a label.
    source: of names and images: an entry of `sources.WAYS`, or `auto`; None if there is only one.
    difficulty: an entry of `DIFFICULTIES`.
    vocabulary_size: tokens of the SentencePiece model.
    shard_records: images per file.
    image_size: side of the square images in pixels.
  """

  name: str
  summary: str
  details: str
  num_emoji: int
  num_held_out: int = 0
  num_mt: int = 0
  num_train: int
  num_validation: int
  num_test: int
  validation: str = "validation"
  num_each: int = 0
  least: int = 0
  source: str | None = "auto"
  difficulty: str = "medium"
  vocabulary_size: int
  shard_records: int = 4_096
  image_size: int = 64

  def __post_init__(self):
    if self.difficulty not in DIFFICULTIES:
      raise UsageError(f"unknown difficulty '{self.difficulty}': choose {', '.join(DIFFICULTIES)}")

  @property
  def scene(self) -> SceneOptions:
    return DIFFICULTIES[self.difficulty]

  @property
  def pictures(self) -> dict[str, int]:
    """Split -> number of images that show combinations of emoji."""
    translated = {"train_mt": self.num_mt} if self.num_mt else {}
    return {
      **translated,
      "train": self.num_train,
      self.validation: self.num_validation,
      "test": self.num_test,
    }


EMOJI36 = Preset(
  name="emoji36",
  summary="generated pictures of emoji with captions in 36 languages",
  details="Names come from Unicode CLDR, pictures from Noto Color Emoji.",
  num_emoji=60,
  num_train=120_000,
  num_validation=600,
  num_test=3_600,
  vocabulary_size=4_500,
  shard_records=8_192,
)
EMOJI100 = Preset(
  name="emoji100",
  summary="pictures of emoji by three artists with captions in 101 languages",
  details="Names come from Unicode CLDR, pictures from Noto, Twemoji and OpenMoji, all fetched with npm. "
  "OpenMoji's pictures are rendered by resvg-py, of the extra emoji.",
  num_emoji=60,
  num_held_out=20,
  num_train=40_000,
  num_validation=600,
  num_test=1_000,
  num_each=10,
  source=None,
  vocabulary_size=16_000,
)
EMOJI_TAGS = Preset(
  name="emoji_tags",
  summary="pictures of emoji with tags, human and translated captions",
  details="Tags and human captions come from Unicode CLDR, pictures from Noto Color Emoji. The captions of train_mt "
  "are translated by dictionary, the Chinese ones by CC-CEDICT, of the extra emoji.",
  num_emoji=300,
  num_mt=20_000,
  num_train=2_000,
  num_validation=500,
  num_test=1_000,
  validation="val",
  least=20,
  vocabulary_size=16_000,
)
PRESETS = (EMOJI36, EMOJI100, EMOJI_TAGS)
