"""Texts in one language with a teacher's embeddings, of images and English captions of a corpus, or of text pairs.

The embeddings are computed once, by `xmcap embed --corpus` or `xmcap embed --captions`, and read from its folder.
"""

import collections
import copy
import dataclasses
import functools
import itertools
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import gin
import msgspec
import numpy as np

from xmcap import digests
from xmcap.data import draws
from xmcap.data.batch_maker import BatchRows
from xmcap.data.image_inputs import NoImages
from xmcap.data.image_stream import Batch, Read
from xmcap.data.mixture import MixedSource
from xmcap.data.order import Order
from xmcap.data.records import RecordSource
from xmcap.data.stream import CaptionStream
from xmcap.data.workers import Job, prefetch
from xmcap.errors import UsageError
from xmcap.families.dual import text_input
from xmcap.families.dual.text_tower import TextConfig
from xmcap.files.bucket_paths import epath
from xmcap.models import model_json
from xmcap.models.t5 import T5Config
from xmcap.ranked import retrieval
from xmcap.reading import embedding_files, embedding_rows, jsonl


@gin.configurable
@dataclasses.dataclass(eq=False, repr=False)
class TaughtStream(CaptionStream):
  """A `CaptionStream` of one caption per image, with the teacher's embeddings instead of the pixels.

  A batch has `target_tokens` and `target_weights` [B, 1, T], `prompt_tokens`, `key`, and the normalised embeddings
  `teacher_text` (of the English caption) and `teacher_image`, float32 [B, E].

  Attributes, beside those of `CaptionStream`:
    teacher: the folder that `xmcap embed --corpus` wrote for this split.
  """

  teacher: str = ""

  can_use_processes: ClassVar[bool] = False

  def __post_init__(self):
    if self.features:
      raise UsageError("TaughtStream: its vectors are those of `teacher`: leave `features` out")
    self.image_size = 1  # the pixels are not used
    super().__post_init__()
    if len(self.parts) > 1:
      raise UsageError(
        f"TaughtStream: '{self.mixture}' mixes several corpora: give one, as `xmcap embed --corpus`"
      )
    if self.captions_per_image != 1 or len(self.languages) != 1:
      raise UsageError("TaughtStream: give one language, and captions_per_image = 1")
    of = f"pictures of split '{self.split}': run xmcap embed --corpus=DIR --split={self.split} --languages=en"
    self._text = _TeacherFile(self.teacher, "captions/en.npy", len(self.source), of)
    self._image = _TeacherFile(self.teacher, "pictures.npy", len(self.source), of)

  def _open(self, source: RecordSource | MixedSource, order: Order) -> None:
    super()._open(source, order)
    self.inputs = NoImages()

  def _part(self, read: Read, steps: range, positions: np.ndarray, inputs: np.ndarray) -> BatchRows:
    rows = super()._part(read, steps, positions, inputs)
    indices = self.indices(positions)
    teacher = {
      "teacher_text": self._text.rows(indices),
      "teacher_image": self._image.rows(indices),
    }
    return rows._replace(fields={**rows.fields, **teacher})


@gin.configurable
@dataclasses.dataclass(eq=False, repr=False)
class PairStream:
  """Texts in one language with a teacher's embeddings of their English originals; no images are read.

  A batch has `target_tokens` int32 and `target_weights` float32 [B, 1, T], `key` [B], and with a teacher `teacher_text`
  float32 [B, E] and, if it has embedded images too, `teacher_image` float32 [B, E]. Each pair is shown once per epoch.

  Attributes:
    pairs: a file of captions as for `xmcap embed`, with as many texts of a key in `language` as in English, in the same
      order. Its keys need not be images.
    language: code of the texts.
    teacher: the folder that `xmcap embed --captions=PAIRS --languages=en` wrote; with --images for `lit`. "": none, for
      `simcse`, which needs no English texts.
    tower: folder of the dual tower, whose tokenizer reads the texts.
    batch_size: B.
    target_length: T, tokens of a text; longer ones are cut and counted in `lost`. The paper has 70.
    seed: seed of the order.

  Raises:
    UsageError: the pairs do not match, or the teacher's embeddings are of other texts.
  """

  pairs: str
  language: str
  tower: str
  teacher: str = ""
  batch_size: int = 512
  target_length: int = 70
  seed: int = 0

  captions_per_image: ClassVar[int] = 1

  def __post_init__(self):
    if self.batch_size < 1 or self.target_length < 2:
      raise UsageError("PairStream: give a batch_size of at least 1 and a target_length of at least 2")
    self.num_images = self.batch_size
    read = ("en", self.language) if self.teacher else (self.language,)
    keys, captions = retrieval.read_captions(self.pairs, read)
    self._texts = captions[self.language]
    self._keys = [keys[image] for image in self._texts.images.tolist()]
    self._teacher = self._pictures = None
    if self.teacher:
      self._open_teacher(captions["en"], len(keys))
    model = model_json.read(epath.Path(self.tower, model_json.NAME))
    config = model.text_config()
    assert isinstance(config, T5Config | TextConfig)
    self._tokenizer = text_input.of_folder(self.tower, config, self.target_length)
    self._length = self._tokenizer.max_length
    self._lost: collections.Counter[str] = collections.Counter()

  def __len__(self) -> int:
    return len(self._texts.texts)

  @property
  def lost(self) -> Mapping[str, int]:
    """Reason -> number of texts that lost something so far."""
    return dict(self._lost)

  def signature(self) -> dict[str, Any]:
    """Returns the settings that determine the pair at a position."""
    texts = digests.of_texts(self._texts.texts)
    settings = {"pairs": texts, "language": self.language, "batch_size": self.num_images, "seed": self.seed}
    return {"stream": type(self).__name__, **settings, "length": self._length}

  def resized(self, images: int) -> Self:
    """Returns the stream with another number of pairs per batch, for trials."""
    stream = copy.copy(self)
    stream.num_images, stream._lost = images, collections.Counter()
    return stream

  def batch(self, step: int, rows: Sequence[int] | None = None) -> Batch:
    """Returns the rows of the batch of a step, all if None; the same whenever it is asked for."""
    chosen = np.arange(self.num_images) if rows is None else np.asarray(rows, np.int64)
    places = draws.permuted(self.seed, chosen + step * self.num_images, len(self))
    encoded, cut = self._tokenizer.encode_all(
      [self._texts.texts[place] for place in places.tolist()], self.language
    )
    if cut:
      self._lost[f"texts of more than {self._length} tokens, which were cut"] += cut
    tokens = np.full((len(places), 1, self._length), self._tokenizer.pad_id, np.int32)
    weights = np.zeros(tokens.shape, np.float32)
    for row, ids in enumerate(encoded):
      tokens[row, 0, : len(ids)] = ids
      weights[row, 0, : len(ids)] = len(ids) > self._tokenizer.added  # a text without words teaches nothing
    batch = {
      "target_tokens": tokens,
      "target_weights": weights,
      "key": np.array([self._keys[place] for place in places.tolist()]),
    }
    if self._teacher is not None:
      batch["teacher_text"] = self._teacher.rows(places)
    if self._pictures is not None:
      batch["teacher_image"] = self._pictures.rows(self._texts.images[places])
    return batch

  def batches(self, start_step: int = 0, rows: Sequence[int] | None = None) -> Iterator[Batch]:
    """Yields the batches from a step on."""
    jobs = (
      Job([functools.partial(self.batch, step, rows)], lambda made: made[0])
      for step in itertools.count(start_step)
    )
    return prefetch(jobs)

  def _open_teacher(self, english: retrieval.CaptionRows, images: int) -> None:
    """Opens the embeddings of the English texts, and of so many images if they are there."""
    if english.images.tolist() != self._texts.images.tolist():
      raise UsageError(
        f"{self.pairs}: the texts in '{self.language}' are not as many of each key as those in 'en': give pairs"
      )
    self._check_teacher(english)
    of = f"of {self.pairs}: embed it again"
    self._teacher = _TeacherFile(self.teacher, "captions/en.npy", len(english.texts), of)
    if pathlib.Path(self.teacher, "pictures.npy").is_file():
      self._pictures = _TeacherFile(self.teacher, "pictures.npy", images, of)

  def _check_teacher(self, english: retrieval.CaptionRows) -> None:
    """Refuses embeddings of other texts: counts may agree by chance."""
    path = pathlib.Path(self.teacher, "embeddings.json")
    about = jsonl.read_document(
      path,
      _Embedded,
      "not a folder of xmcap embed",
      f"run xmcap embed --captions={self.pairs} --languages=en",
    )
    expected = [1, digests.of_json({"en": english.texts})]
    if about.options.captions != expected:
      raise UsageError(
        f"{self.teacher}: holds embeddings of other texts than the English ones of {self.pairs}: run xmcap embed "
        f"--captions={self.pairs} --languages=en"
      )


class _TeacherFile:
  """A file of the teacher's embeddings; UsageError if it has not `count` rows, which are those `of` something."""

  def __init__(self, folder: str, name: str, count: int, of: str):
    self._path = pathlib.Path(folder, name)
    if not self._path.is_file():
      raise UsageError(f"{self._path}: no such file, for {count:,} {of}")
    self._array = embedding_files.map_rows(self._path)
    if len(self._array) != count:
      raise UsageError(f"{self._path}: shape {list(self._array.shape)} for {count:,} {of}")

  def rows(self, rows: np.ndarray) -> np.ndarray:
    """Returns float32 [n, D]; UsageError for NaN, infinity, or a number that float32 does not hold."""
    return embedding_rows.finite(self._array[rows], str(self._path), rows)


class _Options(msgspec.Struct):
  captions: list[int | str]


class _Embedded(msgspec.Struct):
  options: _Options
