"""Collects examples as the model sees them, from a stream, for a contact sheet (show_page.py)."""

import dataclasses
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence

import gin
import numpy as np
from PIL import Image

from xmcap import configuration
from xmcap import languages as languages_lib
from xmcap.data import images, records, registry
from xmcap.data.records import Record, RecordSource
from xmcap.data.stream import CaptionStream
from xmcap.data.vocabulary import EOS_ID, PAD_ID, UNK_ID, Vocabulary
from xmcap.errors import UsageError
from xmcap.files import addresses
from xmcap.reading import image_formats

MAX_COUNT = 500
"""Largest number of images on a sheet; a larger page would be unusable."""

_SAMPLE = 256  # records that are searched for languages
_PUBLISHED_SIDE = 192  # size of the stored image on the sheet, in pixels
_names = (f"shown{number}" for number in itertools.count())


@dataclasses.dataclass(frozen=True)
class Piece:
  """A piece of a target or prompt, with `▁` for a space; `kind` is text, byte, unknown, end or prompt (a LangId)."""

  text: str
  kind: str = "text"


@dataclasses.dataclass(frozen=True)
class ShownCaption:
  """A caption of a record, with the pieces of its prompt and target; `lost` are the truncated pieces."""

  language: str
  text: str
  source: str
  prompt: tuple[Piece, ...]
  pieces: tuple[Piece, ...]
  lost: tuple[Piece, ...] = ()


@dataclasses.dataclass(frozen=True)
class ShownImage:
  """An image of a batch.

  Attributes:
    pixels: uint8 [H, W, 3], the input of the model.
    published: uint8 [height, width, 3], the stored image, scaled down.
    size: (width, height) of the stored image.
    captions: K captions, or none if the record has none in the stream's languages.
  """

  record: Record
  pixels: np.ndarray
  published: np.ndarray
  size: tuple[int, int]
  captions: tuple[ShownCaption, ...]

  @property
  def others(self) -> int:
    """Number of captions of the record that are not shown."""
    shown = {(caption.language, caption.text) for caption in self.captions}
    return max(0, len(self.record.captions) - len(shown))


def stream_of(
  directory: str | os.PathLike,
  *,
  split: str = "",
  count: int = 24,
  captions_per_image: int = 4,
  image_size: int = 224,
  target_length: int = 64,
  languages: str = "",
  vocabulary: str = "",
  seed: int = 0,
) -> CaptionStream:
  """Returns a stream over a built corpus without a gin file.

  The arguments are those of `CaptionStream`, except: a `split` of "" is `train`, or else the first split; `count` is
  the number of images per batch; `languages` are comma-separated codes, "" for all languages of the corpus; a
  `vocabulary` of "" is `vocabulary.model` in the folder.
  """
  names = records.splits(directory)
  split = split or ("train" if "train" in names else next(iter(names), "train"))
  source = RecordSource(directory, split)
  sample = source.read(records.spread(source, _SAMPLE))
  codes = {caption.language for record in sample for caption in record.captions}
  if not vocabulary and not addresses.is_file(addresses.join(directory, "vocabulary.model")):
    raise UsageError(f"{directory} has no vocabulary.model: give one with --vocabulary=PATH")
  name = next(_names)
  registry.register_corpus(name, languages=languages_lib.ordered(codes), splits=names)
  with gin.unlock_config():
    gin.bind_parameter(f"{name}.data_dir", str(directory))
    gin.bind_parameter(f"{name}.vocabulary", str(vocabulary))
  return CaptionStream(
    mixture=name,
    split=split,
    batch_size=count * captions_per_image,
    captions_per_image=captions_per_image,
    prompt_length=8,
    target_length=target_length,
    image_size=image_size,
    seed=seed,
    languages=languages_lib.parse(languages) if languages else (),
  )


def examples(stream: CaptionStream, step: int = 0, count: int | None = None) -> list[ShownImage]:
  """Returns the examples of a step in drawn order, for batches of `count` images (None: the stream's own number)."""
  count = stream.num_images if count is None else count
  if not 1 <= count <= MAX_COUNT:
    raise UsageError(f"{count} pictures on a sheet: give a number from 1 to {MAX_COUNT}")
  stream = stream.resized(count)
  batch = stream.batch(step)
  positions = np.arange(count, dtype=np.int64) + step * count
  drawn = stream.source.read(stream.indices(positions))
  languages = {tuple(stream.vocabulary.prompt(language)): language for language in stream.languages}
  shown = []
  for record, pixels, prompts, targets in zip(
    drawn, batch["image"], batch["prompt_tokens"], batch["target_tokens"], strict=True
  ):
    with image_formats.opened(record.image) as image:
      size = image.size
    published = Image.fromarray(images.decode(record.image, record.key, at_least=_PUBLISHED_SIDE))
    published.thumbnail((_PUBLISHED_SIDE, _PUBLISHED_SIDE))
    captions = tuple(_captions(record, prompts, targets, stream.vocabulary, languages))
    shown.append(ShownImage(record, pixels, np.asarray(published), size, captions))
  return shown


def _captions(
  record: Record,
  prompts: np.ndarray,
  targets: np.ndarray,
  vocabulary: Vocabulary,
  languages: Mapping[tuple[int, ...], str],
) -> Iterator[ShownCaption]:
  """Yields the captions for an image's rows [K, P] and [K, T]; `languages` maps prompts to codes."""
  for prompt_row, target_row in zip(prompts.tolist(), targets.tolist(), strict=True):
    prompt, target = ([token for token in row if token != PAD_ID] for row in (prompt_row, target_row))
    if not target:
      continue
    language = languages[tuple(prompt)]
    caption, ids = _caption_of(record, language, target, vocabulary)
    yield ShownCaption(
      language,
      caption.text,
      caption.source,
      tuple(pieces(vocabulary, prompt, "prompt")),
      tuple(pieces(vocabulary, target)),
      tuple(pieces(vocabulary, ids[len(target) :])),
    )


def _caption_of(
  record: Record, language: str, target: Sequence[int], vocabulary: Vocabulary
) -> tuple[records.Caption, list[int]]:
  """Returns the caption that a target was made from, and all its ids with EOS."""
  for caption in record.captions:
    if caption.language == language:
      ids = [*vocabulary.encode(vocabulary.text_of(caption)), EOS_ID]
      if ids[: len(target)] == list(target):
        return caption, ids
  raise AssertionError(f"picture {record.key}: no caption in {language} is the target")


def pieces(vocabulary: Vocabulary, ids: Sequence[int], kind: str = "text") -> Iterator[Piece]:
  """Yields the pieces of ids; `kind` is for ordinary pieces."""
  special = {EOS_ID: "end", UNK_ID: "unknown"}
  processor = vocabulary.processor
  for token in ids:
    role = special.get(token, "byte" if processor.is_byte(token) else kind)
    yield Piece(processor.id_to_piece(token), role)


def configured_stream() -> CaptionStream:
  """Returns the stream configured by gin; UsageError if no gin file names its corpus."""
  try:
    gin.query_parameter("CaptionStream.mixture")
  except ValueError:
    raise UsageError(
      "the gin files name no corpus (CaptionStream.mixture): add one such as --gin_file=data/coco35l.gin"
    ) from None
  stream = configuration.bound(CaptionStream)
  if stream.stabilizer is not None:
    raise UsageError(
      "a sheet shows captions without stabilizers: leave runs/plugs.gin out, or add --gin.CaptionStream.stabilizer=None"
    )
  return stream


def facts(stream: CaptionStream, step: int) -> dict[str, str]:
  """Returns facts about the stream for the sheet, as name -> value."""
  augment = stream.augment
  crop = "none" if augment is None else ", ".join(f"{k} {v}" for k, v in dataclasses.asdict(augment).items())
  return {
    "Records in the split": f"{len(stream.source):,}",
    "Batch": f"{step:,}",
    "Seed": str(stream.seed),
    "Picture": f"{stream.image_size} × {stream.image_size} pixels",
    "Augmentation": crop,
    "Captions per picture": f"{stream.captions_per_image}, from {len(stream.languages)} languages",
    "Target length": f"{stream.target_lengths[-1]} pieces",
    "Vocabulary": f"{os.path.basename(stream.vocabulary.path)}, {stream.vocabulary.size:,} pieces",
  }
