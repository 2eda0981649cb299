"""A split of generated emoji scenes, with images, captions and tags in every language."""

import dataclasses
import hashlib
import math
import pathlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from xmcap.corpora.building.annotations import Annotated
from xmcap.corpora.emoji import scenes
from xmcap.corpora.emoji.cldr import ListPattern
from xmcap.data.records import Caption, Record

SEED = 0
"""Of all draws; it enters the keys of the images too."""
_VOCABULARY_SCENES = 600
_NAME_REPEATS = 2

Draw = Callable[[str, int, int, int], tuple[list[list[int]], np.random.Generator]]
"""(split, shard, start, count) -> scenes, as class ids in reading order, and the generator for rendering them."""


@dataclasses.dataclass(frozen=True)
class SceneCaptions:
  """Writes captions of scenes, given language -> name of each class (None if missing), and list patterns.

  `translated` are the languages whose names are machine-translated.
  """

  names: Mapping[str, Sequence[str | None]]
  standard: dict[str, ListPattern]
  plain: dict[str, ListPattern]
  translated: Collection[str] = ()

  def captions(self, scene: list[int]) -> list[Caption]:
    """Returns the standard caption in each language that has names for all emoji of the scene."""
    return [
      Caption(language, text, source="mt" if language in self.translated else "human")
      for language, text in self._join(scene, self.standard).items()
    ]

  def references(self, scene: list[int]) -> list[Caption]:
    """Returns one or two captions per language, the standard one first."""
    plain = self._join(scene, self.plain)
    captions = []
    for caption in self.captions(scene):
      captions.append(caption)
      if plain.get(caption.language, caption.text) != caption.text:
        captions.append(dataclasses.replace(caption, text=plain[caption.language]))
    return captions

  def _join(self, scene: list[int], patterns: dict[str, ListPattern]) -> dict[str, str]:
    joined = {}
    for language, pattern in patterns.items():
      names = [name for emoji in scene if (name := self.names[language][emoji]) is not None]
      if len(names) == len(scene):
        joined[language] = pattern.join(names)
    return joined


@dataclasses.dataclass(frozen=True)
class DrawnSplit:
  """A split, whose records are made shard by shard in any process.

  Attributes:
    dataset, name: names of the corpus and the split; both enter the keys of the images.
    count: number of images.
    shard_records: images per file.
    tags: names of the classes.
    captioner: writes the captions.
    renderer: renders the images.
    draw: draws the scenes.
    keywords: language -> keywords of each class (None if missing); an image's tags are those of its classes.
  """

  dataset: str
  name: str
  count: int
  shard_records: int
  tags: list[str]
  captioner: SceneCaptions
  renderer: scenes.Renderer
  draw: Draw
  keywords: Mapping[str, Sequence[Sequence[str] | None]] = dataclasses.field(default_factory=dict)

  @property
  def shards(self) -> range:
    return range(math.ceil(self.count / self.shard_records))

  def records(self, shard: int, references: bool = False) -> Iterator[Record]:
    """Yields the records of a shard, with one caption per language, or with all `references`."""
    drawn, start, rng = self._draw(shard)
    describe = self.captioner.references if references else self.captioner.captions
    images = self.renderer.render(drawn, rng)
    for index, (scene, image) in enumerate(zip(drawn, images, strict=True), start):
      yield Record(
        key=self._key(index),
        image=scenes.encode_png(image),
        captions=describe(scene),
        tags=[self.tags[emoji] for emoji in scene],
        tags_by_language=self._tags_by_language(scene),
      )

  def annotated(self) -> Iterator[Annotated]:
    """Yields the images of the split with their tags by language, without rendering them."""
    for shard in self.shards:
      drawn, start, _ = self._draw(shard)
      for index, scene in enumerate(drawn, start):
        yield Annotated(self._key(index), self.name, self._tags_by_language(scene))

  def _key(self, index: int) -> str:
    name = f"{self.dataset}/{SEED}/{self.name}/{index}"
    return hashlib.blake2b(name.encode(), digest_size=8).hexdigest()

  def _tags_by_language(self, scene: list[int]) -> dict[str, list[str]]:
    """Returns tags in the languages that have keywords for all emoji of the scene."""
    tags = {}
    for language, keywords in self.keywords.items():
      words_of_emoji = [words for emoji in scene if (words := keywords[emoji]) is not None]
      if len(words_of_emoji) == len(scene):
        tags[language] = list(dict.fromkeys(word for words in words_of_emoji for word in words))
    return tags

  def _draw(self, shard: int) -> tuple[list[list[int]], int, np.random.Generator]:
    start = shard * self.shard_records
    drawn, rng = self.draw(self.name, shard, start, min(self.shard_records, self.count - start))
    return drawn, start, rng

  def vocabulary_text(self) -> str:
    """Returns names, and captions of the first scenes of this split, in every language, one per line."""
    lines = []
    for names in self.captioner.names.values():
      lines += [name for name in names if name is not None] * _NAME_REPEATS
    for scene in self._draw(0)[0][:_VOCABULARY_SCENES]:
      lines += [caption.text for caption in self.captioner.captions(scene)]
    return "".join(f"{line}\n" for line in lines)


@dataclasses.dataclass(frozen=True)
class Drawing:
  """What a corpus consists of, before anything is rendered.

  Attributes:
    description: of the corpus, for TFDS's metadata.
    recorded: the splits whose records are written.
    trained: the splits whose captions the vocabulary is trained on.
    released: the splits that are also written in XM3600's release layout, with further references.
    about: what NAME.json has beside the options.
    write_more: writes further files into the folder of the corpus; returns what NAME.json says of them.
  """

  description: str
  recorded: Sequence[DrawnSplit]
  trained: Sequence[DrawnSplit]
  released: Sequence[DrawnSplit] = ()
  about: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  write_more: Callable[[pathlib.Path], Mapping[str, Any]] = lambda out: {}
