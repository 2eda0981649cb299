"""Captions in one language with a teacher's embeddings of their pictures and their English captions.

The embeddings are computed once, by `xmcap embed --corpus`, and read from its folder.
"""

import dataclasses
import pathlib
from collections.abc import Iterable
from typing import ClassVar

import gin
import numpy as np

from xmcap.data.picture_stream import Batch, Rows
from xmcap.data.stream import CaptionStream
from xmcap.errors import UsageError


@gin.configurable
@dataclasses.dataclass(eq=False, repr=False)
class TaughtStream(CaptionStream):
  """A `CaptionStream` of one caption per picture, with the teacher's embeddings instead of the pixels.

  A batch has `target_tokens` and `target_weights` [B, 1, T], `prompt_tokens`, `key`, and the normalised embeddings
  `teacher_text` (of the English caption) and `teacher_image`, float32 [B, E].

  Attributes, beside those of `CaptionStream`:
    teacher: the folder that `xmcap embed --corpus` wrote for this split.
  """

  teacher: str = ""

  has_rows: ClassVar[bool] = False

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
    self._text = self._embeddings("captions/en.npy")
    self._image = self._embeddings("pictures.npy")

  def _embeddings(self, name: str) -> np.ndarray:
    path = pathlib.Path(self.teacher, name)
    try:
      found = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
      raise UsageError(
        f"{path}: cannot be read ({error}): run xmcap embed --corpus=DIR --split={self.split} --languages=en"
      ) from None
    if found.ndim != 2 or len(found) != len(self.source):
      raise UsageError(
        f"{path}: shape {list(found.shape)}, but the split '{self.split}' has {len(self.source)} pictures: embed it"
        " again"
      )
    return found

  def _load_pixels(
    self, pixels: np.ndarray, pictures: Iterable[tuple[str, bytes]], positions: np.ndarray
  ) -> None:
    for _ in pictures:  # iterating draws the captions
      pass

  def _part(self, step: int, positions: np.ndarray, pixels: np.ndarray) -> Rows:
    rows = super()._part(step, positions, pixels)
    indices = self.indices(self._planned(step, positions))
    teacher = {
      "teacher_text": np.asarray(self._text[indices], np.float32),
      "teacher_image": np.asarray(self._image[indices], np.float32),
    }
    return rows._replace(fields={**rows.fields, **teacher})

  def _joined(self, pixels: np.ndarray, parts: list[Rows]) -> Batch:
    batch = super()._joined(pixels, parts)
    del batch["image"]
    return batch
