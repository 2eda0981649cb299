"""Captions of one language beside what a teacher made of their pictures and their English captions.

The teacher's embeddings are computed once, by `xmcap embed --corpus`, and read from its folder.
"""

import dataclasses
import pathlib
from collections.abc import Iterable

import gin
import numpy as np

from xmcap.data.picture_stream import Batch
from xmcap.data.stream import CaptionStream
from xmcap.errors import UsageError


@gin.configurable
@dataclasses.dataclass(eq=False, repr=False)
class TaughtStream(CaptionStream):
  """A `CaptionStream` of one caption a picture, without the pixels, and with the teacher's embeddings.

  A batch holds `target_tokens` and `target_weights` [B, 1, T], `prompt_tokens`, `key`, and float32 [B, E]:
  `teacher_text` (of the English caption) and `teacher_image`, each of length 1.

  Attributes, beside those of `CaptionStream`:
    teacher: the folder that `xmcap embed --corpus` wrote of this split.
  """

  teacher: str = ""

  def __post_init__(self):
    self.image_size = 1  # pixels that are made for nothing
    super().__post_init__()
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
        f"{path}: shape {list(found.shape)}, and the split '{self.split}' has {len(self.source)} pictures: embed it"
        " again"
      )
    return found

  def _load_pixels(
    self, pixels: np.ndarray, pictures: Iterable[tuple[str, bytes]], positions: np.ndarray
  ) -> None:
    del positions
    for _ in pictures:  # the captions are drawn while they pass
      pass
    pixels[...] = 0

  def _joined(self, positions: np.ndarray, pixels: np.ndarray, parts: list) -> Batch:
    batch = super()._joined(positions, pixels, parts)
    del batch["image"]
    # Dealt out by length, a batch's pictures are not those of its own positions.
    indices = self._indices(np.concatenate([part.positions for part in parts]))
    for name, table in (("teacher_text", self._text), ("teacher_image", self._image)):
      batch[name] = np.asarray(table[indices], np.float32)
    return batch
