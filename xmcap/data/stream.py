"""The stream, a function from position to example: seeded, stateless, and resumable at any step at the same cost.

A position numbers the images from the start of training: step n of a stream with B images per batch has the
positions n B to (n + 1) B - 1, and a process reads those of its rows. The image (from a permutation of the split, a
different one each epoch), the languages, the captions and the crop are functions of (seed, position). So a run that is
resumed at any step, or on another number of hosts, sees the same examples as an uninterrupted one. (`bucket_window`
redistributes the positions of a few batches among those batches, which depends on nothing else either.)

  order.py           the image at a position, of one corpus or of several by rates
  mixture.py         the records of all corpora, and what is drawn from each
  caption_choice.py  draws the captions of an image
  length_index.py    the lengths of all captions
  length_batches.py  from them: the target length of a batch, and its images if grouped by it
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import gin
import numpy as np

from xmcap import languages as languages_lib
from xmcap.data import length_index as lengths
from xmcap.data.batch_maker import BatchRows
from xmcap.data.caption_choice import Drawing, DrawnCaptions
from xmcap.data.image_stream import Batch, ImageStream, Read
from xmcap.data.length_batches import LengthBatches
from xmcap.data.mixture import open_parts
from xmcap.data.order import MixedOrder, Order
from xmcap.data.readers import CaptionReader, TagReader
from xmcap.data.records import read_tags
from xmcap.data.registry import Registration, registration
from xmcap.data.tag_prompts import TagPrompts, own_tags
from xmcap.data.vocabulary import PAD_ID, check_prompts
from xmcap.errors import UsageError
from xmcap.models.targets import Stabilizing, TargetFormat


@gin.configurable
@dataclasses.dataclass(eq=False, repr=False)
class CaptionStream(ImageStream):
  """Images with K captions each, in languages drawn by weight.

  The K captions of an image are in K different languages. An image with fewer than K languages continues with further
  captions of them, and repeats captions only after using all of them. If all captions of an image are equally likely
  (with `count`, or with as many captions in each language and equal weights), an epoch shows each of them exactly once,
  in an order of the image's own; see caption_choice.py.

  A batch has `image` uint8 [B, H, W, 3], `prompt_tokens` int32 [B, K, P], `target_tokens` int32 [B, K, T], with EOS and
  padding, `target_weights` float32 [B, K, T], 1 for every piece and EOS, and `key` [B] strings. A caption that is too
  long keeps its first T pieces without EOS, so that no model learns to stop there. An image that has no caption in
  these languages, or is skipped, has weights 0. All of these are counted in `lost`. In a mixture of several corpora,
  keys are CORPUS/KEY.

  Attributes, beside those of `ImageStream`; its `batch_size` is B x K:
    captions_per_image: K.
    prompt_length: P, pieces of the LangId prompt.
    target_length: T, pieces of a caption, including EOS.
    target_lengths: T is the smallest of these lengths, or `target_length`, that fits all captions of the global batch;
      lengths above `target_length` are ignored. The step is compiled once per length. Several lengths need the split's
      index of lengths (`xmcap data index`), except for a small split.
    bucket_window: with `target_lengths`, the images of this many batches are sorted by caption length among each
      other, so that most batches are short. 1 keeps the order.
    languages: codes to draw from; () means all of the mixture.
    sources: sources of captions to draw, of `human`, `mt` and `translated`; () means all.
    language_weights: `rates` of the mixture; `uniform`; `count`, the image's number of captions in the language, so
      that all its captions are equally likely; or weights by code, for some or all languages.
    temperature: weights are raised to the power of 1 / temperature, like rates in seqio and mT5.
    prompt_tags: the tags that follow the LangId in a prompt, the same for all of an image's prompts in a language;
      None: none.
    stabilizer: if given, targets are those of PLuGS (see `families/plugs/stabilizer.py`): each caption follows the
      caption in the pivot language that it translates, and captions without such a pair (see caption_choice.py) are not
      drawn.
      Target lengths count both. With the form `consistent`, `prompt_tokens` are padding, [B, 1, 1], and LangIds in
      targets have weight 0.
  """

  captions_per_image: int = 1
  prompt_length: int = 4
  target_length: int = 64
  target_lengths: Sequence[int] = ()
  bucket_window: int = 1
  languages: Sequence[str] = ()
  sources: Sequence[str] = ()
  language_weights: str | Mapping[str, float] = "rates"
  temperature: float = 1.0
  prompt_tags: TagPrompts | None = None
  stabilizer: Stabilizing | None = None

  can_use_processes: ClassVar[bool] = True

  def __post_init__(self):
    super().__post_init__()
    if self.captions_per_image < 1 or self.batch_size % self.captions_per_image:
      raise UsageError(
        f"a batch of {self.batch_size} captions with {self.captions_per_image} per image: make it a multiple"
      )
    registered = registration(self.mixture)
    self.parts, source, order = open_parts(self, registered, self.temperature)
    self._open(source, order)
    self.num_images = self.batch_size // self.captions_per_image
    self.vocabulary = registered.vocabulary()
    self._count_power = 1 / self.temperature if self.language_weights == "count" else None
    self.languages = tuple(
      languages_lib.ordered({language for part in self.parts for language in part.weights})
    )
    self._marks = self._stabilized(registered)
    self._prompts = self._prompt_table(self.prompt_length)
    self._tags = None
    if self.prompt_tags:
      self._tags = self.prompt_tags.read(own_tags(self.parts) if self.prompt_tags.is_own else None)
      self._tags.check_length(self.vocabulary, self.languages, self.prompt_length)
    if list(self.target_lengths) != sorted(set(self.target_lengths)):
      raise UsageError(f"target_lengths {tuple(self.target_lengths)}: give ascending lengths")
    targets = (*(length for length in self.target_lengths if length < self.target_length), self.target_length)
    if targets[0] < 2 or self.bucket_window < 1:
      raise UsageError("target lengths must be at least 2 (a piece and EOS), and bucket_window at least 1")
    weights, sources = zip(*((part.weights, part.sources) for part in self.parts), strict=True)
    self._drawing = Drawing(
      self.seed, self.languages, weights, self._count_power, self.captions_per_image, sources,
      self.stabilizer.language if self.stabilizer else "",
    )  # fmt: skip
    self.reader = CaptionReader(
      self.source, self._drawing, tuple(part.prefix for part in self.parts), self.vocabulary, self._marks,
      self._prompts, self.inputs,
    )  # fmt: skip
    self._indexes: Sequence[lengths.LengthIndex] = ()
    if len(targets) > 1:
      self._indexes = [lengths.index_of(part.source, self.vocabulary) for part in self.parts]
    self._plan(targets, self.bucket_window)

  def _stabilized(self, registered: Registration) -> TargetFormat | None:
    """The tokens around stabilizers; UsageError if a corpus has none, or the other settings do not fit."""
    marks = self.vocabulary.marks(self.stabilizer)
    if marks is None:
      return None
    language = marks.stabilizer.language
    for name, part in registered.named.items():
      if language not in part.corpus.languages:
        raise UsageError(
          f"Stabilizer.language is '{language}', in which {name} has no captions: give another"
        )
    if marks.stabilizer.is_consistent and self.prompt_tags:
      raise UsageError("with Stabilizer.form = 'consistent' the encoder has no prompt: leave out prompt_tags")
    if self.target_length <= marks.stabilizer.length:
      raise UsageError(
        f"a target of {self.target_length} tokens has no room after a stabilizer of {marks.stabilizer.length}: raise "
        "CaptionStream.target_length (TARGET_LENGTH), or lower Stabilizer.length (STABILIZER_LENGTH)"
      )
    return marks

  def _plan(self, target_lengths: Sequence[int], bucket_window: int) -> None:
    """Sets up the plan of batches."""
    self.target_lengths = target_lengths
    self.bucket_window = bucket_window if len(target_lengths) > 1 else 1
    self._length_batches = LengthBatches(
      self._drawing, self._indexes, self.order, self.num_images, target_lengths, self.bucket_window,
      np.sum(self._prompts != PAD_ID, axis=1),
    )  # fmt: skip

  def _prompt_table(self, prompt_length: int) -> np.ndarray:
    """Returns int32 [languages + 1, P]; the last row, all padding, is for images without a caption in them."""
    check_prompts(self.vocabulary, self.languages)
    table = np.full((len(self.languages) + 1, prompt_length), PAD_ID, np.int32)
    for row, language in zip(table[:-1], self.languages, strict=True):
      prompt = self.vocabulary.prompt(language)
      if len(prompt) > prompt_length:
        raise UsageError(
          f"the prompt of '{language}' has {len(prompt)} pieces: raise prompt_length, which is {prompt_length}"
        )
      row[: len(prompt)] = prompt
    return table

  def language_of(self, prompt_tokens: np.ndarray) -> np.ndarray:
    """Returns the language codes, strings [...], of the prompts of a batch, [..., P]; "" for padding."""
    languages = {
      tuple(row[row != PAD_ID]): language
      for row, language in zip(self._prompts, (*self.languages, ""), strict=True)
    }
    # The longest one that a prompt begins with, since tags may follow.
    lengths = sorted({len(prompt) for prompt in languages}, reverse=True)
    rows = prompt_tokens.reshape(-1, prompt_tokens.shape[-1])
    of_rows = [
      next(languages[tuple(row[:n])] for n in lengths if tuple(row[:n]) in languages) for row in rows
    ]
    return np.array(of_rows).reshape(prompt_tokens.shape[:-1])

  def captions(self, positions: np.ndarray) -> list[DrawnCaptions]:
    """Returns the keys and the first drawn captions of the images at N positions, int64 [N]."""
    prefixes = [part.prefix for part in self.parts]
    return self._drawing.captions(self.source, self.order.at(positions), prefixes)

  def signature(self) -> dict[str, Any]:
    weights = [dict(part.weights) for part in self.parts]
    drawn: dict[str, Any] = {"language_weights": weights[0]}
    if isinstance(self.order, MixedOrder):
      places = self.order.counts.tolist()
      drawn = {
        "language_weights": weights,
        "places": dict(zip((part.name for part in self.parts), places, strict=True)),
        "splits": {part.name: part.source.split for part in self.parts},
      }
    return {
      **super().signature(),
      **drawn,
      "sources": [part.sources for part in self.parts],
      "prompt_tags": self._tags.sha256 if self._tags else None,
      "stabilizer": [self.stabilizer.form, self.stabilizer.language] if self.stabilizer else None,
      "batch_size": self.num_images * self.captions_per_image,
      "captions_per_image": self.captions_per_image,
      "prompt_length": self._prompts.shape[1],
      "target_lengths": self.target_lengths,
      "bucket_window": self.bucket_window,
      "count_power": self._count_power,
      "captions": self._drawing.method,
      "vocabulary": self.vocabulary.sha256,
    }

  def resized(self, images: int) -> Self:
    """See `ImageStream`; targets have the largest length, and images keep their drawn order."""
    stream = super().resized(images)
    stream._plan(self.target_lengths[-1:], bucket_window=1)
    return stream

  def first(self, count: int, multiple: int = 1) -> tuple[Self, int]:
    """See `ImageStream`; images keep their drawn order."""
    stream, steps = super().first(count, multiple)
    stream._plan(self.target_lengths, bucket_window=1)
    return stream, steps

  @property
  def faster(self) -> list[str]:
    several = ["use more captions per picture (captions_per_image)"] if self.inputs.name else []
    return [*super().faster, *several]

  def mix_of_lengths(self, steps: int) -> dict[int, float]:
    """Returns T -> share among about the first `steps` batches."""
    return self._length_batches.mix(steps)

  @property
  def _window(self) -> int:
    return self.bucket_window

  def _part(self, read: Read, steps: range, positions: np.ndarray, inputs: np.ndarray) -> BatchRows:
    length = max(map(self._length_batches.length, steps))
    rows = read(inputs, positions, self._counted(positions), self.order.at(positions), length)
    columns = rows.fields["columns"]
    prompts = self._prompts[columns]
    if self.stabilizer is not None and self.stabilizer.is_consistent:
      prompts = np.full((len(prompts), 1, 1), PAD_ID, np.int32)
    elif self._tags is not None:
      languages = np.array([*self.languages, ""])[columns]
      prompts = self._tags.extend(prompts, rows.keys, languages, self.vocabulary)
    fields = {name: rows.fields[name] for name in ("target_tokens", "target_weights")}
    return rows._replace(fields={"prompt_tokens": prompts, **fields})

  def _own(self, step: int, batch: Batch) -> Batch:
    length = self._length_batches.length(step)
    return {**batch, **{name: batch[name][..., :length] for name in ("target_tokens", "target_weights")}}

  def _planned(self, step: int, positions: np.ndarray) -> np.ndarray:
    return self._length_batches.positions(step, positions - step * self.num_images)


@gin.configurable
@dataclasses.dataclass(eq=False, repr=False)
class TagStream(ImageStream):
  """Images with their tags: the classes in the image, in reading order.

  A batch has `image` uint8 [B, H, W, 3]; `tags` int32 [B, S], the line numbers of tags in `tags.txt`, from 1, and 0 for
  empty slots; `weights` float32 [B], 1 for each image, 0 for skipped ones; and `key` [B].

  Attributes, beside those of `ImageStream`; its corpus must have tags:
    num_slots: S, largest number of tags per image; further ones are dropped and counted in `lost`.
  """

  num_slots: int = 3

  can_use_processes: ClassVar[bool] = True

  def __post_init__(self):
    super().__post_init__()
    if self.num_slots < 1:
      raise UsageError(f"num_slots is {self.num_slots}: give at least 1")
    corpus = registration(self.mixture).corpus
    source = corpus.source(self.split)
    self._open(source, Order(self.seed, [len(source)], self.neighbours))
    self.tags = tuple(read_tags(corpus.location().data_dir))
    ids = {tag: number for number, tag in enumerate(self.tags, 1)}
    self.reader = TagReader(source, ids, self.num_slots, self.inputs)

  def signature(self) -> dict[str, Any]:
    return {**super().signature(), "num_slots": self.num_slots, "tags": len(self.tags)}
