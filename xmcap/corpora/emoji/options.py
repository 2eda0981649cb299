"""Options of the generated corpora. The command line declares them too, so this module must stay light."""

import dataclasses
from typing import Any, ClassVar

from xmcap.errors import UsageError

BACKGROUNDS = ("plain", "gradient", "noise", "mixed")


@dataclasses.dataclass(frozen=True)
class SceneOptions:
  """The variability of scenes. Lengths are shares of the picture's side.

  Attributes:
    min_size, max_size: range of the longer side of an emoji, drawn uniformly; if a row of emoji is wider than the
      picture plus `overlap`, the emoji shrink until they fit.
    jitter: 0: evenly spaced on the middle line; 1: anywhere inside the picture, in reading order.
    overlap: how much wider than the picture a row of emoji may be; neighbours then overlap a little.
    background: `plain` (one colour), `gradient` (two to four colours), `noise` (smooth, many colours), or `mixed` (a
      third each).
    contrast: in [0, 1], how different the colours of a background are.
  """

  min_size: float = 0.3
  max_size: float = 0.42
  jitter: float = 0.7
  overlap: float = 0.06
  background: str = "mixed"
  contrast: float = 0.4

  def __post_init__(self):
    if not 0 < self.min_size <= self.max_size <= 1:
      raise UsageError(
        f"min_size={self.min_size}, max_size={self.max_size}: use 0 < min_size <= max_size <= 1"
      )
    for name in ("jitter", "overlap", "contrast"):
      if not 0 <= getattr(self, name) <= 1:
        raise UsageError(f"{name}={getattr(self, name)}: use a number from 0 to 1")
    if self.background not in BACKGROUNDS:
      raise UsageError(f"background={self.background}: choose one of {', '.join(BACKGROUNDS)}")


DIFFICULTIES = {
  "easy": SceneOptions(min_size=0.32, max_size=0.34, jitter=0.15, overlap=0.0, background="plain"),
  "medium": SceneOptions(),
  "hard": SceneOptions(
    min_size=0.2, max_size=0.5, jitter=1.0, overlap=0.15, background="noise", contrast=1.0
  ),
}
"""Presets. `easy`: nearly fixed places, on one colour. `hard`: small or large, anywhere, on strong noise."""


def _number(default: int, help: str, least: int = 1) -> Any:
  return dataclasses.field(default=default, metadata={"help": help, "least": least})


def _text(default: str | None, help: str) -> Any:
  return dataclasses.field(default=default, metadata={"help": help, "metavar": "NAME"})


def _share(help: str) -> Any:
  return dataclasses.field(default=None, metadata={"help": help, "metavar": "X", "type": float})


@dataclasses.dataclass(frozen=True, kw_only=True)
class DrawnOptions:
  """Options that all generated corpora share; UsageError if one is out of range."""

  SPLITS: ClassVar[dict[str, str]] = {
    "train": "num_train",
    "validation": "num_validation",
    "test": "num_test",
  }
  """Split -> option for its number of pictures."""

  image_size: int = _number(64, "side of the square pictures in pixels", least=16)
  seed: int = _number(0, "random seed, on which the choice of emoji does not depend", least=0)
  difficulty: str = _text("medium", "easy, medium or hard: a preset of the options below")
  min_size: float | None = _share("smallest emoji, as a share of the picture's side")
  max_size: float | None = _share("largest emoji")
  jitter: float | None = _share("0: fixed positions; 1: anywhere")
  overlap: float | None = _share("how much emoji may overlap")
  contrast: float | None = _share("contrast of the background's colours")
  background: str | None = _text(None, "plain, gradient, noise or mixed")

  def __post_init__(self):
    for field in dataclasses.fields(self):
      value, least = getattr(self, field.name), field.metadata.get("least")
      if least is not None and value < least:
        raise UsageError(f"{field.name}={value}: must be at least {least}")
    _ = self.scene  # UsageError if it is out of range

  @property
  def scene(self) -> SceneOptions:
    """The preset with the changes that are given."""
    if self.difficulty not in DIFFICULTIES:
      raise UsageError(f"unknown difficulty '{self.difficulty}': choose {', '.join(DIFFICULTIES)}")
    changes = {field.name: getattr(self, field.name) for field in dataclasses.fields(SceneOptions)}
    changed = {name: value for name, value in changes.items() if value is not None}
    return dataclasses.replace(DIFFICULTIES[self.difficulty], **changed)

  @property
  def pictures(self) -> dict[str, int]:
    """Split -> number of pictures that show combinations of emoji."""
    return {split: getattr(self, name) for split, name in self.SPLITS.items()}

  def plan(self, *names: str) -> dict[str, Any]:
    """Returns what tells a build from another one: these options, and those that all corpora share."""
    return {
      **{name: getattr(self, name) for name in names},
      "pictures": self.pictures,
      "image_size": self.image_size,
      "seed": self.seed,
      "scenes": dataclasses.asdict(self.scene),
    }


@dataclasses.dataclass(frozen=True, kw_only=True)
class Emoji36Options(DrawnOptions):
  """Options of emoji36."""

  num_emoji: int = _number(60, "classes; about 360 emoji are distinguishable", least=5)
  num_train: int = _number(120_000, "training pictures")
  num_validation: int = _number(600, "validation pictures")
  num_test: int = _number(3_600, "test pictures")
  source: str = _text("auto", "source of names and pictures: installed, debian, npm or auto")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Emoji100Options(DrawnOptions):
  """Options of emoji100."""

  num_emoji: int = _number(60, "classes", least=5)
  num_held_out: int = _number(20, "additional classes that are in no training picture", least=2)
  num_train: int = _number(40_000, "training pictures")
  num_validation: int = _number(600, "validation pictures")
  num_test: int = _number(1_000, "pictures in the retrieval test")
  num_each: int = _number(10, "pictures per class in each zero-shot classification test")


@dataclasses.dataclass(frozen=True, kw_only=True)
class EmojiTagsOptions(DrawnOptions):
  """Options of emoji_tags."""

  SPLITS = {"train_mt": "num_mt", "train": "num_human", "val": "num_val", "test": "num_test"}

  num_emoji: int = _number(300, "emoji; about 360 are distinguishable", least=5)
  num_mt: int = _number(20_000, "pictures of train_mt, with translated captions")
  num_human: int = _number(2_000, "pictures of train, with human captions and tags")
  num_val: int = _number(500, "validation pictures")
  num_test: int = _number(1_000, "test pictures")
  least: int = _number(20, "minimum number of train pictures of a label")
  source: str = _text("auto", "source of names, keywords and pictures: installed, debian, npm or auto")
