"""Examples as the model sees them: what a stream makes of pictures and captions, for a contact sheet (show_page.py)."""

import dataclasses
import io
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence

import gin
import numpy as np
import sentencepiece
from PIL import Image

from xmcap import languages as languages_lib
from xmcap.data import draws, images, records, tasks
from xmcap.data.records import Record, RecordSource
from xmcap.data.stream import CaptionStream
from xmcap.data.vocabulary import EOS_ID, PAD_ID, UNK_ID, Vocabulary, read_model
from xmcap.errors import UsageError
from xmcap.storage import addresses

MAX_COUNT = 500
"""Pictures of a sheet; a page with more would be too large to look at."""

_SAMPLE = 256  # records in which languages are looked for
_names = (f"shown{number}" for number in itertools.count())


@dataclasses.dataclass(frozen=True)
class Piece:
  """A piece of a target or prompt: its text with `▁` for a space, and its kind.

  The kinds: `text`, `byte`, `unknown`, `end`, and `prompt` (a LangId piece).
  """

  text: str
  kind: str = "text"


@dataclasses.dataclass(frozen=True)
class ShownCaption:
  """A caption of an example.

  Attributes:
    language: code.
    text: as the record has it.
    source: `human` or `mt`.
    prompt: what is put before the picture's encoder.
    pieces: the target.
    lost: pieces that were cut off, the end among them; () if the caption fits.
  """

  language: str
  text: str
  source: str
  prompt: tuple[Piece, ...]
  pieces: tuple[Piece, ...]
  lost: tuple[Piece, ...] = ()


@dataclasses.dataclass(frozen=True)
class Example:
  """A picture of a batch.

  Attributes:
    key, locale, tags: of its record.
    pixels: uint8 [H, W, 3], as the model gets them.
    published: the record's picture, scaled down; uint8 [height, width, 3].
    size: width and height of that picture as it is stored.
    num_bytes: of it.
    captions: K of them; () if the picture has none in the stream's languages.
    others: captions of the record that are not shown.
  """

  key: str
  locale: str
  tags: tuple[str, ...]
  pixels: np.ndarray
  published: np.ndarray
  size: tuple[int, int]
  num_bytes: int
  captions: tuple[ShownCaption, ...]
  others: int


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
  """A stream over a built corpus that no gin file speaks of, as `CaptionStream` has the arguments.

  Args:
    directory: of the records.
    split: "" is `train`, or else the first that there is.
    count: pictures in its batches.
    languages: codes with commas between; "" is all that the corpus has.
    vocabulary: "" is `vocabulary.model` in the folder.

  Raises:
    UsageError: the folder is no corpus, or has no such split or language, or there is no vocabulary.
  """
  names = records.splits(directory)
  split = split or ("train" if "train" in names else next(iter(names), "train"))
  source = RecordSource(directory, split)
  held = _languages_of(source)
  wanted = languages_lib.parse(languages) if languages else held
  absent = [code for code in wanted if code not in held]
  if absent:
    raise UsageError(f"{directory}, split '{split}': no captions in '{absent[0]}'; it has {' '.join(held)}")
  if not vocabulary and not addresses.is_file(addresses.join(directory, "vocabulary.model")):
    raise UsageError(f"{directory} holds no vocabulary.model: name one with --vocabulary=PATH")
  name = next(_names)
  tasks.register_corpus(name, languages=wanted, splits=names)
  with gin.unlock_config():
    gin.bind_parameter(f"{name}.data_dir", str(directory))
    gin.bind_parameter(f"{name}.vocabulary", str(vocabulary))
  return CaptionStream(
    mixture=name,
    split=split,
    batch_size=_checked(count) * captions_per_image,
    captions_per_image=captions_per_image,
    prompt_length=8,
    target_length=target_length,
    image_size=image_size,
    seed=seed,
    # What gin may say of the stream of a run is not for this one.
    augment=None,
    target_lengths=(),
    bucket_window=1,
    languages=(),
    language_weights="rates",
    temperature=1.0,
  )


def _checked(count: int) -> int:
  if not 1 <= count <= MAX_COUNT:
    raise UsageError(f"{count} pictures on a sheet: give a number from 1 to {MAX_COUNT}")
  return count


def _languages_of(source: RecordSource) -> tuple[str, ...]:
  sample = np.unique(np.linspace(0, len(source) - 1, min(len(source), _SAMPLE)).astype(np.int64))
  held = {caption.language for record in source.read(sample) for caption in record.captions}
  return tuple(code for code in languages_lib.LANGUAGES if code in held)


def examples(stream: CaptionStream, step: int = 0, count: int | None = None) -> list[Example]:
  """The first examples of a batch.

  Args:
    stream: where from; batches are in drawn order, not sorted by length.
    step: which batch, if the stream gave `count` pictures a batch.
    count: how many; None: the stream's pictures a batch.

  Raises:
    UsageError: `count` or `step` is out of range.
    XmcapError: a record or picture cannot be read; names it.
  """
  stream = stream.resized(_checked(stream.pictures if count is None else count))
  batch = stream.batch(step)
  positions = np.arange(stream.pictures, dtype=np.int64) + step * stream.pictures
  held = stream.source.read(draws.permuted(stream.seed, positions, len(stream.source)))
  pieces = _Pieces(stream.vocabulary)
  languages = {tuple(stream.vocabulary.prompt(code)): code for code in stream.languages}
  return [
    _example(stream, record, pixels, prompts, targets, pieces, languages)
    for record, pixels, prompts, targets in zip(
      held, batch["image"], batch["prompt_tokens"], batch["target_tokens"], strict=True
    )
  ]


def _example(
  stream: CaptionStream,
  record: Record,
  pixels: np.ndarray,
  prompts: np.ndarray,
  targets: np.ndarray,
  pieces: "_Pieces",
  languages: Mapping[tuple[int, ...], str],
) -> Example:
  captions = []
  for prompt, target in zip(_without_pads(prompts), _without_pads(targets), strict=True):
    if not target:
      continue
    language = languages[tuple(prompt)]
    caption, ids = _caption_of(record, language, target, stream.vocabulary)
    captions.append(
      ShownCaption(
        language=language,
        text=caption.text,
        source=caption.source,
        prompt=tuple(pieces(prompt, "prompt")),
        pieces=tuple(pieces(target)),
        lost=tuple(pieces(ids[len(target) :])),
      )
    )
  with Image.open(io.BytesIO(record.image)) as image:
    size = image.size
  published = Image.fromarray(images.decode(record.image, record.key, at_least=192))
  published.thumbnail((192, 192))
  return Example(
    key=record.key,
    locale=record.locale,
    tags=tuple(record.tags),
    pixels=pixels,
    published=np.asarray(published),
    size=size,
    num_bytes=len(record.image),
    captions=tuple(captions),
    others=max(0, len(record.captions) - len({(c.language, c.text) for c in captions})),
  )


def _without_pads(rows: np.ndarray) -> Iterator[list[int]]:
  for row in rows.tolist():
    yield [token for token in row if token != PAD_ID]


def _caption_of(
  record: Record, language: str, target: Sequence[int], vocabulary: Vocabulary
) -> tuple[records.Caption, list[int]]:
  """The caption that a target was made of, and all its ids with the end."""
  for caption in record.captions:
    if caption.language == language:
      ids = [*vocabulary.encode(caption.text), EOS_ID]
      if ids[: len(target)] == list(target):
        return caption, ids
  raise AssertionError(f"picture {record.key}: no caption in {language} is the target")


class _Pieces:
  """Ids -> pieces."""

  def __init__(self, vocabulary: Vocabulary):
    self._processor = sentencepiece.SentencePieceProcessor(model_proto=read_model(vocabulary.path))

  def __call__(self, ids: Sequence[int], kind: str = "text") -> Iterator[Piece]:
    for token in ids:
      text = self._processor.id_to_piece(token)
      if token == EOS_ID:
        yield Piece(text, "end")
      elif token == UNK_ID:
        yield Piece(text, "unknown")
      else:
        yield Piece(text, "byte" if self._processor.is_byte(token) else kind)


def configured_stream() -> CaptionStream:
  """The stream that gin configures; UsageError if no gin file says of what."""
  try:
    gin.query_parameter("CaptionStream.mixture")
  except ValueError:
    raise UsageError(
      "the gin files name no corpus (CaptionStream.mixture): add one such as --gin_file=data/coco35l.gin"
    ) from None
  return CaptionStream()


def facts(stream: CaptionStream, step: int) -> dict[str, str]:
  """What a sheet says of its stream: name -> value."""
  augment = stream.augment
  crop = "none" if augment is None else ", ".join(f"{k} {v}" for k, v in dataclasses.asdict(augment).items())
  return {
    "Records in the split": f"{len(stream.source):,}",
    "Batch": f"{step:,}",
    "Seed": str(stream.seed),
    "Picture": f"{stream.image_size} × {stream.image_size} pixels",
    "Augmentation": crop,
    "Captions a picture": f"{stream.captions_per_image}, of {len(stream.languages)} languages",
    "Target length": f"{stream.target_lengths[-1]} pieces",
    "Vocabulary": f"{os.path.basename(stream.vocabulary.path)}, {stream.vocabulary.size:,} pieces",
  }
