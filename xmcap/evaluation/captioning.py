"""The Python API of a trained captioner: thread-safe, without gin and TensorFlow."""

import dataclasses
import functools
import os
import pathlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from absl import logging
from PIL import Image

from xmcap import languages as languages_lib
from xmcap import processes
from xmcap.data import images
from xmcap.data import vocabulary as vocabulary_lib
from xmcap.data.tag_prompts import PromptTags
from xmcap.data.vocabulary import Vocabulary, check_rows
from xmcap.data.workers import Job, prefetch
from xmcap.errors import UsageError
from xmcap.evaluation import predictor, sharded_params
from xmcap.files import paths
from xmcap.files.bucket_paths import epath
from xmcap.models import model_json
from xmcap.models.captioner import Captioner
from xmcap.models.decoding.beam_search import IMPOSSIBLE, Beam, n_best
from xmcap.models.decoding.generator import Generator
from xmcap.models.decoding.search import Greedy, Sample
from xmcap.training.checkpoints import read


@dataclasses.dataclass(frozen=True)
class EncodedPicture:
  """What `ImageCaptioner.encode` makes of a picture; it may be passed instead of the picture, to the same captioner.

  Attributes:
    tokens: the output of the image tower, [N, W].
  """

  tokens: np.ndarray


Picture = str | os.PathLike | bytes | Image.Image | np.ndarray | EncodedPicture
"""The path of an image, the bytes of its file, a Pillow image, pixels, uint8 [height, width, 3], or encoded pixels."""

_SEARCHES = {"greedy": Greedy, "beam": Beam, "sample": Sample}
# Languages (times samples) per image are rounded up to these, so that few programs are compiled.
_ROWS = (1, 2, 4, 8, 12, 24, 36)


@dataclasses.dataclass(frozen=True)
class Candidate:
  """A caption and its score: the sum of its log-probabilities, with beam search divided by the length penalty.

  `probability` is the mean probability of its tokens with greedy search, else None. `tokens` are those that were
  decoded: the last is EOS, unless there are as many as were allowed.
  """

  text: str
  score: float
  probability: float | None = None
  tokens: tuple[int, ...] = ()


class ImageCaptioner:
  """Captions images; each is encoded once for all its languages. Made by `load_captioner`.

  Images are captioned in batches. The numbers of images (to powers of two up to `batch_size`) and of languages are
  rounded up to a few sizes, each of which is compiled once per search: the first call of a size takes seconds, or a
  minute for a large model. All methods may be called from several threads; the devices serve one at a time.

  Args:
    model: contents of `model.json`.
    params: parameters of the captioner.
    vocabulary: the vocabulary that the model was trained with.
    batch_size: images per batch; rounded up to a multiple of the devices that share a batch.

  Attributes:
    languages: codes of the languages that the model was trained on; all 36 if it does not say.
    image_size: side of the images that the model sees, in pixels.
    search: the default search.
    tags: the tags in the prompts with which the model was trained; None: none.

  Raises:
    UsageError: the model is not a captioner, or the vocabulary belongs to another model.
    XmcapError: the parameters belong to another model.
  """

  def __init__(self, model: model_json.Model, params: Any, vocabulary: Vocabulary, batch_size: int = 8):
    vit, t5 = model.captioner()
    if batch_size < 1:
      raise UsageError(f"batch_size is {batch_size}: it must be at least 1")
    self._captioner = Captioner(vit, t5)
    check_rows(vocabulary, t5.vocab_size)
    predictor.check_params(self._captioner, params)
    self.search: Any = model.searching()
    tags = model.config("tags")
    self.tags = tags if isinstance(tags, model_json.TagsInPrompt) else None
    self._has_warned = self.tags is None
    self.image_size: int = vit.image_size
    self.languages = model.languages or tuple(languages_lib.LANGUAGES)
    self._foreign: set[str] = set()  # languages that a warning has named
    self.vocabulary = vocabulary
    every = languages_lib.ordered({*self.languages, *languages_lib.LANGUAGES})
    self._prompt_width = predictor.prompts_of(vocabulary, every).shape[1]
    self._decoding = model_json.Decoding(**model.decoding)
    self._marks = vocabulary.marks(model.config("stabilizer"))
    cast = self._generator(self.search).cast
    self._params = sharded_params.for_decoding(params, jax.local_devices(), cast)
    self.batch_size = self._params.rounded(batch_size)
    self._lock = threading.Lock()  # all devices must start programs in the same order

  def widen(self, languages: Sequence[str]) -> None:
    """Makes room in all prompts for those of further languages, which else need programs of their own if longer."""
    prompts = predictor.prompts_of(self.vocabulary, languages)
    self._prompt_width = max(self._prompt_width, prompts.shape[1])

  def caption(
    self, pictures: Sequence[Picture], languages: Sequence[str] | Sequence[Sequence[str]] | None = None, **options: Any
  ) -> list[dict[str, str]]:  # fmt: skip
    """Returns the best caption of each image as {language: text}; arguments and errors as in `candidates`."""
    best = self.best(pictures, languages, **options)
    return [{language: one.text for language, one in of_image.items()} for of_image in best]

  def best(
    self, pictures: Sequence[Picture], languages: Sequence[str] | Sequence[Sequence[str]] | None = None, **options: Any
  ) -> list[dict[str, Candidate]]:  # fmt: skip
    """Returns the first of the `candidates` of each image as {language: candidate}."""
    ranked = self.candidates(pictures, languages, **options)
    return [{language: candidates[0] for language, candidates in of_image.items()} for of_image in ranked]

  def candidates(
    self,
    pictures: Sequence[Picture],
    languages: Sequence[str] | Sequence[Sequence[str]] | None = None,
    *,
    search: Any = None,
    n: int = 1,
    max_length: int | None = None,
    seed: int = 0,
    tags: Sequence[Mapping[str, Sequence[str]]] | None = None,
    pad_to: int = 1,
  ) -> list[dict[str, list[Candidate]]]:
    """Returns for each image {language: its `n` captions with scores}, best first.

    Args:
      pictures: any mixture of paths, bytes of files, Pillow images, arrays, and what `encode` returns.
      languages: codes for all images, or a sequence of codes for each image; None: English, or all languages of a
        model that was not trained on English.
      search: `greedy`, `beam` or `sample`, or an object from `xmcap.models.decoding` such as `Beam(beams=8)` or
        `Sample(temperature=0.7)`; None: the model's own.
      n: captions per image and language: the best of beam search, or independent samples. Beam search may find fewer.
      max_length: the largest number of tokens in a caption, counting EOS, and its stabilizer if the model writes one;
        None: the model's own.
      seed: seed of sampling. A sample depends on the seed, the image's position, the language and its number.
      tags: for a model that was trained with tags in its prompts, {language: tags, best first} of each image, as
        `xmcap.data.tag_prompts.read` reads a tagger's predictions.
      pad_to: a batch whose images have fewer languages is padded to so many, so that it needs no other program.

    Raises:
      UsageError: an argument is out of range, a language is unknown, or an image cannot be read.
      XmcapError: an image cannot be decoded.
    """
    pictures = _listed(pictures)
    codes = self._codes(languages, len(pictures))
    prompt_tags = self._read_tags(tags, codes)
    search = self._searching(search, n)
    repeated = n if isinstance(search, Sample) else 1
    generate = self._generator(search, max_length)
    if not pictures:
      return []
    rng = predictor.key_on(self._params, seed)
    starts = range(0, len(pictures), self.batch_size)
    candidates: list[dict[str, list[Candidate]]] = []
    loaded = prefetch((self._job(pictures, start) for start in starts), processes.available_cores(), depth=2)
    for start in starts:
      of_batch = codes[start : start + self.batch_size]
      rows = max(pad_to, *map(len, of_batch)) * repeated
      tokens = np.stack([picture.tokens for picture in self._encoded(next(loaded))])
      candidates += self._decoded(generate, tokens, of_batch, repeated, rows, rng, start, prompt_tags)
    return candidates

  def encode(self, pictures: Sequence[Picture]) -> list[EncodedPicture]:
    """Encodes pictures, for several calls with them; arguments and errors as in `candidates`."""
    pictures = _listed(pictures)
    starts = range(0, len(pictures), self.batch_size)
    loaded = prefetch((self._job(pictures, start) for start in starts), processes.available_cores(), depth=2)
    return [encoded for batch in loaded for encoded in self._encoded(batch)]

  def load(self, image: Picture, key: str = "") -> np.ndarray:
    """The image as the model sees it, uint8 [image_size, image_size, 3]; it may be passed instead of the image."""
    if isinstance(image, bytes):
      return images.load(image, key, self.image_size)
    if isinstance(image, Image.Image | np.ndarray):
      return images.fit(image, key, self.image_size)
    if not isinstance(image, str | os.PathLike):
      raise UsageError(
        f"picture '{key}': {type(image).__name__}: give a path, bytes, a Pillow image or an array"
      )
    paths.check_file(image)
    try:
      data = pathlib.Path(image).read_bytes()
    except OSError as error:
      raise UsageError(
        f"{os.fspath(image)}: cannot be read ({error.strerror}): name a JPEG or PNG file"
      ) from None
    return images.load(data, os.fspath(image), self.image_size)

  def _job(self, pictures: Sequence[Picture], start: int) -> Job:
    def load(row: int) -> np.ndarray | EncodedPicture:
      picture = pictures[row]
      return picture if isinstance(picture, EncodedPicture) else self.load(picture, f"number {row}")

    rows = range(start, min(start + self.batch_size, len(pictures)))
    return Job([functools.partial(load, row) for row in rows], list)

  def _encoded(self, batch: Sequence[np.ndarray | EncodedPicture]) -> list[EncodedPicture]:
    """A batch in which those that are pixels, uint8 [S, S, 3], are encoded, by one call."""
    pixels = [picture for picture in batch if not isinstance(picture, EncodedPicture)]
    tokens: Iterator[np.ndarray] = iter(())
    if pixels:
      size = _rounded(len(pixels), self._params.groups, self.batch_size)
      with self._lock:
        tokens = iter(predictor.encode_batch(self._captioner, self._params, _padded(np.stack(pixels), size)))
    return [
      picture if isinstance(picture, EncodedPicture) else EncodedPicture(next(tokens)) for picture in batch
    ]

  def _codes(self, languages: Any, count: int) -> list[tuple[str, ...]]:
    """The codes of each image; UsageError for a wrong one."""
    if languages is None:
      languages = languages_lib.unasked(self.languages)
    if isinstance(languages, str):
      raise UsageError(f"languages={languages!r}: give a list of codes, such as ['{languages[:20]}']")
    if languages and not any(isinstance(codes, str) for codes in languages):
      by_image = [tuple(codes) for codes in languages]
    else:
      by_image = [tuple(languages)] * count
    if len(by_image) != count:
      raise UsageError(
        f"languages for {len(by_image)} pictures, but {count} pictures: give one list of codes for each"
      )
    for codes in dict.fromkeys(by_image):
      if not codes or len(set(codes)) < len(codes):
        raise UsageError(f"languages={list(codes)}: give at least one code, and each once")
      for language in codes:
        languages_lib.get(language)
    foreign = {language for codes in by_image for language in codes} - {*self.languages, *self._foreign}
    if foreign:
      self._foreign |= foreign
      logging.warning(languages_lib.trained_on(self.languages, languages_lib.ordered(foreign)))
    return by_image

  def _read_tags(
    self, tags: Sequence[Mapping[str, Sequence[str]]] | None, languages: Sequence[Sequence[str]]
  ) -> PromptTags | None:
    """The tags of the images, whose keys are their numbers; UsageError if they do not fit the model."""
    if tags is None:
      if not self._has_warned:
        self._has_warned = True
        logging.warning(model_json.without_tags("caption() takes them, and so does xmcap caption"))
      return None
    if self.tags is None:
      raise UsageError(model_json.TRAINED_WITHOUT_TAGS)
    if len(tags) != len(languages) or not all(isinstance(of_image, Mapping) for of_image in tags):
      raise UsageError(
        f"tags={str(tags)[:60]}: give {{language: tags}} of each of the {len(languages)} pictures"
      )
    keys = [str(number) for number in range(len(tags))]
    prompts = PromptTags(dict(zip(keys, tags, strict=True)), "tags", self.tags.language, self.tags.most)
    for key, of_image in zip(keys, languages, strict=True):
      prompts.check([key], of_image)
      prompts.check_length(self.vocabulary, of_image, self.tags.prompt_length, "prompt_length", [key])
    return prompts

  def _searching(self, search: Any, n: int) -> Any:
    if isinstance(search, str):
      if search not in _SEARCHES:
        raise UsageError(
          f"search={search!r}: give one of {', '.join(_SEARCHES)}, or a search such as Beam(beams=8)"
        )
      search = _SEARCHES[search]()
    search = self.search if search is None else search
    if n < 1:
      raise UsageError(f"n={n}: it must be at least 1")
    if n == 1 or isinstance(search, Sample):
      return search
    if not isinstance(search, Beam):
      raise UsageError(f"n={n}: {type(search).__name__} finds only one caption: use beam search or sampling")
    return n_best(search, n)

  def _generator(self, search: Any, max_length: int | None = None) -> Generator:
    length = self._decoding.max_length if max_length is None else max_length
    return Generator(self._captioner, search, length, self._decoding.cache_dtype, self._marks)

  def _decoded(
    self, generate: Generator, images: np.ndarray, languages: Sequence[Sequence[str]], repeated: int, rows: int,
    rng: Any, start: int, tags: PromptTags | None,
  ) -> list[dict[str, list[Candidate]]]:  # fmt: skip
    """The candidates of a batch: encoded images [B, N, W] and the codes of each, padded to `rows` prompts each."""
    size = _rounded(len(images), self._params.groups, self.batch_size)
    rows = next((least for least in _ROWS if least >= rows), rows)
    # The batch is padded with repeated prompts and images, whose captions are dropped.
    asked = [[language for language in of_image for _ in range(repeated)] for of_image in languages]
    filled = [[*of_image, *[of_image[-1]] * (rows - len(of_image))] for of_image in asked]
    prompts = predictor.prompts_of(
      self.vocabulary, [language for of_image in filled for language in of_image]
    )
    # Padded to the longest prompt of all languages, so that other languages need no new program.
    width = self._prompt_width if tags is None or self.tags is None else self.tags.prompt_length
    prompts = np.pad(prompts, ((0, 0), (0, max(0, width - prompts.shape[1]))))
    prompts = prompts.reshape(len(images), rows, -1)
    if tags is not None:
      keys = [str(start + row) for row in range(len(images))]
      prompts = tags.extend(prompts, keys, np.array(filled), self.vocabulary)
    ids = _padded(np.arange(start, start + len(images), dtype=np.int32), size)
    with self._lock:
      tokens, scores = predictor.decode_batch(
        generate, self._params, _padded(images, size), _padded(prompts, size), rng, ids
      )
    means = np.full(scores.shape, None)
    if isinstance(generate.search, Greedy):
      means = predictor.mean_probabilities(tokens, scores)
    candidates = []
    for of_image, row_tokens, row_scores, row_means in zip(languages, tokens, scores, means, strict=False):
      candidates.append({})
      for place, language in enumerate(of_image):
        own = slice(place * repeated, (place + 1) * repeated)
        of_language = row_tokens[own]
        if self._marks is not None:
          of_language = self._marks.split(of_language, predictor.prompts_of(self.vocabulary, [language]))[1]
        candidates[-1][language] = self._candidates(of_language, row_scores[own], row_means[own])
    return candidates

  def _candidates(self, tokens: np.ndarray, scores: np.ndarray, means: np.ndarray) -> list[Candidate]:
    """The candidates of one image and language, from tokens [..., T], scores and means [...]; best first."""
    rows = zip(
      tokens.reshape(-1, tokens.shape[-1]),
      scores.reshape(-1).tolist(),
      means.reshape(-1).tolist(),
      strict=True,
    )
    candidates = [
      Candidate(self.vocabulary.decode(row), score, mean, tuple(row[row != vocabulary_lib.PAD_ID].tolist()))
      for row, score, mean in rows
      if score > IMPOSSIBLE / 2
    ]
    return sorted(candidates, key=lambda candidate: -candidate.score)


def load_captioner(
  model_dir: str | os.PathLike, step: int | None = None, weights: str | None = None, *, batch_size: int = 8
) -> ImageCaptioner:
  """Loads a model folder that `xmcap train` or `xmcap convert` wrote onto the devices of this process.

  It reads `model.json`, `vocabulary.model` and a checkpoint, and runs no code from the folder. jax chooses the devices
  (JAX_PLATFORMS=cpu for the CPU); if there are several, they share each batch.

  Args:
    model_dir: a path or an address (`gs://...`).
    step: step of the checkpoint; None: the best by the run's metric if there is one, else the newest.
    weights: `ema` or `raw`; None: the EMA of the weights if the run has one.
    batch_size: images per batch.

  Raises:
    UsageError: there is no model or no such step, or the vocabulary does not fit.
    XmcapError: a file is damaged.
  """
  model = model_json.of_folder(model_dir)
  vocabulary = Vocabulary(os.fspath(epath.Path(model_dir) / vocabulary_lib.VOCABULARY))
  params = read.load_params(model_dir, read.best_step(model_dir) if step is None else step, weights)
  return ImageCaptioner(model, params, vocabulary, batch_size)


def _listed(pictures: Any) -> list[Picture]:
  if isinstance(pictures, Image.Image | bytes | str | os.PathLike | Mapping) or not hasattr(
    pictures, "__iter__"
  ):
    raise UsageError(f"pictures={type(pictures).__name__}: give a list of pictures, such as ['a.jpg']")
  return list(pictures)


def _padded(rows: np.ndarray, size: int) -> np.ndarray:
  """Repeats the last row up to `size` rows."""
  return rows[np.minimum(np.arange(size), len(rows) - 1)]


def _rounded(count: int, groups: int, most: int) -> int:
  """The smallest batch size for `count` images: `groups` times a power of two, or `most`."""
  size = groups
  while size < count:
    size *= 2
  return min(size, most)
