"""What streams read, as values: functions from positions to rows of a batch, which other processes can get."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from xmcap.data.batch_maker import BatchRows, weights_of
from xmcap.data.caption_choice import Drawing
from xmcap.data.image_inputs import ImageInputs
from xmcap.data.mixture import MixedSource
from xmcap.data.order import Places
from xmcap.data.records import RecordSource, parse_columns
from xmcap.data.vocabulary import EOS_ID, PAD_ID, Vocabulary
from xmcap.errors import XmcapError
from xmcap.models.targets import TargetFormat
from xmcap.terminal import shown

_CUT = "captions truncated at the target length"
_EMPTY = "pictures without a caption in these languages"
_UNPAIRED = "pictures without a caption in these languages that is paired with one in the pivot language"
_TAGS = "tags beyond the last slot"


@dataclasses.dataclass(frozen=True, eq=False)
class CaptionReader:
  """Reads the captions and images of a `CaptionStream`.

  Attributes:
    source: the records of all corpora.
    drawing: draws the captions of an image.
    prefixes: what is put before the keys of each corpus.
    vocabulary: encodes captions.
    marks: the tokens around stabilizers; None: without.
    prompts: int32 [languages + 1, P], the prompt of each language.
    inputs: what a batch has of the images.
  """

  source: RecordSource | MixedSource
  drawing: Drawing
  prefixes: Sequence[str]
  vocabulary: Vocabulary
  marks: TargetFormat | None
  prompts: np.ndarray
  inputs: ImageInputs

  def __call__(
    self, inputs: np.ndarray, positions: np.ndarray, counted: np.ndarray, places: Places, length: int
  ) -> BatchRows:
    """Returns the targets of N images, padded to `length`, and their languages, `columns` [N, K]."""
    drawn = self.drawing.read(self.source, places)
    keys, columns, texts, pivots = [], [], [], []

    def of_records() -> Iterator[tuple[str, bytes]]:
      # One by one, so that the bytes of an image are still in the CPU cache when it is decoded.
      for part, record, languages, chosen in drawn:
        keys.append(self.prefixes[part] + record.key)
        columns.append(languages)
        texts.append([self.vocabulary.text_at(record, place) for place in chosen])
        if self.marks:
          layout = self.drawing.layout(part, record.layout, record.languages, record.sources)
          pivots.append([self.vocabulary.text_at(record, place) for place in layout.pivots[chosen]])
        yield keys[-1], record.image

    undecodable = self.inputs.fill(inputs, of_records(), positions, places.indices)
    chosen = np.array(columns)
    encoded = iter(self._encoded(texts, pivots, chosen))
    targets = np.full((*chosen.shape, length), PAD_ID, np.int32)
    weights = weights_of(keys, counted, undecodable)
    cut, empty = [], []
    for row, (key, weight, of_image) in enumerate(zip(keys, weights, texts, strict=True)):
      if weight and not of_image:
        empty.append(key)
      for line in targets[row, : len(of_image)]:
        ids = next(encoded)
        line[: len(ids)] = ids[:length]
        if weight and len(ids) > length:
          cut.append(key)
    learnt = targets != PAD_ID
    if self.marks:
      learnt &= ~self.marks.is_given(targets, self.prompts[chosen])
    fields = {"columns": chosen, "target_tokens": targets, "target_weights": learnt * weights[:, None, None]}
    return BatchRows(keys, fields, {_CUT: cut, _UNPAIRED if self.marks else _EMPTY: empty}, undecodable)

  def _encoded(
    self, texts: Sequence[Sequence[str]], pivots: Sequence[Sequence[str]], columns: np.ndarray
  ) -> list[list[int]]:
    """Returns the ids of the targets of N images; `pivots` are empty without stabilizers."""
    # One call for all images, because a call costs more than a caption.
    captions = self.vocabulary.encode_all([text for of_image in texts for text in of_image])
    if not self.marks:
      return [[*ids, EOS_ID] for ids in captions]
    stabilizers = self.vocabulary.encode_all([text for of_image in pivots for text in of_image])
    drawn = [
      column for of_image, row in zip(texts, columns.tolist(), strict=True) for column in row[: len(of_image)]
    ]
    prompts = [row[row != PAD_ID].tolist() for row in self.prompts]
    return [
      self.marks.target(stabilizer, prompts[column], caption)
      for stabilizer, column, caption in zip(stabilizers, drawn, captions, strict=True)
    ]


@dataclasses.dataclass(frozen=True, eq=False)
class TagReader:
  """Reads the tags and images of a `TagStream`.

  Attributes:
    source: the records.
    ids: tag -> its number in `tags.txt`, from 1.
    num_slots: S.
    inputs: what a batch has of the images.
  """

  source: RecordSource
  ids: Mapping[str, int]
  num_slots: int
  inputs: ImageInputs

  def __call__(
    self, inputs: np.ndarray, positions: np.ndarray, counted: np.ndarray, places: Places
  ) -> BatchRows:
    """Returns the tags and weights of N images."""
    records = self.source.read(places.indices, parse_columns)
    of_records = ((record.key, record.image) for record in records)
    undecodable = self.inputs.fill(inputs, of_records, positions, places.indices)
    keys = [record.key for record in records]
    weights = weights_of(keys, counted, undecodable)
    tags = np.zeros((len(records), self.num_slots), np.int32)
    beyond: list[str] = []
    for row, record, weight in zip(tags, records, weights, strict=True):
      try:
        ids = [self.ids[tag.decode()] for tag in record.tags]
      except KeyError as error:
        raise XmcapError(
          f"picture '{shown(record.key)}': tag {shown(error)} is not in {self.source.directory}/tags.txt: "
          "build it again"
        ) from None
      row[: len(ids)] = ids[: self.num_slots]
      if weight:
        beyond += [record.key] * (len(ids) - self.num_slots)
    return BatchRows(keys, {"tags": tags, "weights": weights}, {_TAGS: beyond}, undecodable)
