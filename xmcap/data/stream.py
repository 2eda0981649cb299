"""The stream: position -> example. Seeded, stateless, resumable at any step at the same cost.

A position is the number of a picture counted from the start of training: step n of a stream with B
pictures a batch holds the positions n B to (n + 1) B - 1, and a process reads those of its rows.
All else is a function of (seed, position): which picture (a permutation of the split, another one each
epoch), which languages, which caption of a language, which crop. So a run that starts again at any step,
or on another number of hosts, sees what an undisturbed one would have seen. (`bucket_window` deals the
positions of a few batches out anew among those batches; this too depends on nothing else.)
"""

import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import gin
import numpy as np

from xmcap.data import checks, draws, images
from xmcap.data import weights as weights_lib
from xmcap.data.picture_stream import PREFETCH_BYTES, Batch, PictureStream
from xmcap.data.records import Columns, parse_columns, read_tags
from xmcap.data.skipped import SkippedPictures
from xmcap.data.tasks import registration
from xmcap.data.vocabulary import EOS_ID, PAD_ID, Vocabulary
from xmcap.errors import UsageError, XmcapError

# Most pictures of a corpus have as many captions in the same languages: what is found for one is kept for others.
_MAX_LAYOUTS = 1_000

_CUT = "captions cut at the target length"
_EMPTY = "pictures without a caption in these languages"
_TAGS = "tags beyond the last slot"


class _Captions(NamedTuple):
  """The captions of N pictures: N keys, columns of `_prompts` [N, K], ids [N][K], and how many the longest has."""

  keys: Sequence[str]
  chosen: np.ndarray
  tokens: list[list[list[int]]]
  longest: int


@gin.configurable
class CaptionStream(PictureStream):
  """Pictures with K captions each, in languages drawn by weight.

  The K captions of a picture are in K different languages, drawn without replacement by their weights among the
  languages that the picture has. A picture with fewer than K languages goes on with further captions of them, in the
  same order, and repeats itself only when all are used up. Of several captions in a language the picture takes turns by
  epoch.

  A batch holds `image` uint8 [B, H, W, 3], `prompt_tokens` int32 [B, K, P], `target_tokens` int32 [B, K, T], ended
  by EOS and filled up with pads, `target_weights` float32 [B, K, T], 1 on every piece and the end, `key` [B] strings;
  B rows. A caption that is too long keeps its first T pieces and has no end, so that no model learns to stop there; it
  is counted in `truncated`. A picture that has no caption in these languages, or is skipped, has weights 0 and is
  counted in `lost`.

  Args:
    mixture: name of a seqio mixture or task made by `register_corpus`: languages, rates, records,
      vocabulary.
    split: record split, or a part of one such as `train[:1000]`.
    batch_size: captions in the batch of all hosts, B x K.
    captions_per_image: K.
    prompt_length: P, pieces of the LangId prompt.
    target_length: T, pieces of a caption, its end included.
    image_size: H = W, pixels.
    seed: of order, languages and augmentation.
    augment: random changes to the pictures; None for none.
    target_lengths: if given, T is the smallest of these lengths that holds every caption of the batch;
      the largest must be `target_length`. Each length compiles the step once.
    bucket_window: with `target_lengths`, batches are made from this many at a time, pictures with long
      captions together, so that most batches are short. Each process then reads the captions of the whole
      window. 1 leaves the order alone.
    workers, depth, prefetch_bytes: how batches are made ahead, see `PictureStream`.
    languages: codes to draw from; () is all of the mixture.
    language_weights: `rates` of the mixture; `uniform`; `count`, by the number of captions that a picture has in a
      language, so that each of its captions is as likely; or weights by code, of all languages or a part of them.
    temperature: weights are taken to the power of 1 / temperature, as rates in seqio and mT5.
    on_bad: what a picture that cannot be decoded does: `stop` ends the run, `skip` gives it weights 0.
    bad_limit: so many different pictures of a process may be skipped.

  Raises:
    UsageError: sizes that do not fit together, an unknown mixture or language, a vocabulary without a prompt for a
      language, or a corpus that is not there.
  """

  def __init__(
    self,
    mixture: str,
    split: str = "train",
    batch_size: int = 128,
    captions_per_image: int = 1,
    prompt_length: int = 4,
    target_length: int = 64,
    image_size: int = 224,
    seed: int = 0,
    augment: images.Augment | None = None,
    target_lengths: Sequence[int] = (),
    bucket_window: int = 1,
    workers: int | None = None,
    depth: int = 16,
    prefetch_bytes: int = PREFETCH_BYTES,
    languages: Sequence[str] = (),
    language_weights: str | Mapping[str, float] = "rates",
    temperature: float = 1.0,
    on_bad: str = "stop",
    bad_limit: int = 100,
  ):
    if captions_per_image < 1 or batch_size < 1 or batch_size % captions_per_image:
      raise UsageError(
        f"a batch of {batch_size} captions cannot hold {captions_per_image} an image: make it a multiple"
      )
    registered = registration(mixture)
    source = registered.corpus.source(split)
    pictures = batch_size // captions_per_image
    super().__init__(source, pictures, image_size, seed, augment, workers, depth, prefetch_bytes)
    self.skipped = SkippedPictures(on_bad, bad_limit)
    self.vocabulary: Vocabulary = registered.corpus.vocabulary()
    weights = weights_lib.language_weights(registered.rates, languages, language_weights, temperature)
    self.languages: tuple[str, ...] = tuple(weights)
    checks.check_prompts(self.vocabulary, self.languages)
    self.captions_per_image = captions_per_image
    self.target_lengths = tuple(target_lengths) or (target_length,)
    rising = sorted({*self.target_lengths, target_length})
    if list(self.target_lengths) != rising:
      raise UsageError(
        f"target_lengths {self.target_lengths}: give rising lengths up to target_length ({target_length})"
      )
    if self.target_lengths[0] < 2 or bucket_window < 1:
      raise UsageError("a target holds at least one piece and its end, and a window at least one batch")
    self.bucket_window = bucket_window if len(self.target_lengths) > 1 else 1
    self._weights = np.array(list(weights.values()))
    self._count_power = 1 / temperature if language_weights == "count" else None
    self._columns = {language.encode(): column for column, language in enumerate(self.languages)}
    self._layouts: dict[bytes, dict[int, list[int]]] = {}
    # The last row, all pads, is for a picture with no caption in these languages.
    self._prompts = np.full((len(self.languages) + 1, prompt_length), PAD_ID, np.int32)
    for row, language in zip(self._prompts[:-1], self.languages, strict=True):
      prompt = self.vocabulary.prompt(language)
      if len(prompt) > prompt_length:
        raise UsageError(
          f"the prompt of '{language}' has {len(prompt)} pieces: raise prompt_length, now {prompt_length}"
        )
      row[: len(prompt)] = prompt
    self._windows: dict[int, tuple[list[Columns], np.ndarray, np.ndarray, list, np.ndarray]] = {}
    self._window_lock = threading.Lock()

  def resized(self, pictures: int) -> "CaptionStream":
    """As in every stream; with one length of targets, the largest, and pictures in drawn order."""
    stream = super().resized(pictures)
    stream.target_lengths, stream.bucket_window = self.target_lengths[-1:], 1
    return stream

  def first(self, count: int, multiple: int = 1) -> tuple["CaptionStream", int]:
    """As in every stream; pictures in drawn order."""
    stream, steps = super().first(count, multiple)
    stream.bucket_window = 1
    return stream, steps

  @property
  def truncated(self) -> int:
    """Captions so far that were cut at the target length."""
    return self.lost.get(_CUT, 0)

  def _part(self, step: int, positions: np.ndarray, pixels: np.ndarray) -> _Captions:
    if self.bucket_window > 1:
      rows = positions - step * self.pictures
      records, positions, chosen, tokens = self._sorted_batch(step)
      longest = _longest(tokens)
      records, tokens = [records[row] for row in rows], [tokens[row] for row in rows]
      positions, chosen = positions[rows], chosen[rows]
      self._load_pixels(pixels, ((record.key, record.image) for record in records), positions)
      return _Captions([record.key for record in records], chosen, tokens, longest)
    drawn: list[tuple[str, Sequence[int], Sequence[str]]] = []

    def pictures() -> Iterator[tuple[str, bytes]]:
      # One at a time: what is read of a picture is still in the processor's cache when it is decoded.
      for record, columns, texts in self._drawn(positions):
        drawn.append((record.key, columns, texts))
        yield record.key, record.image

    self._load_pixels(pixels, pictures(), positions)
    keys, columns, texts = zip(*drawn, strict=True)
    chosen, tokens = self._encoded(columns, texts)
    return _Captions(keys, chosen, tokens, _longest(tokens))

  def _joined(self, positions: np.ndarray, pixels: np.ndarray, parts: list[_Captions]) -> Batch:
    keys = [key for part in parts for key in part.keys]
    tokens = [captions for part in parts for captions in part.tokens]
    chosen = np.concatenate([part.chosen for part in parts])
    longest = max(part.longest for part in parts)
    if self.bucket_window == 1 and len(positions) < self.pictures:
      # The other processes' captions are not known here, and all must agree on T.
      longest = self.target_lengths[-1]
    length = next((size for size in self.target_lengths if size >= longest), self.target_lengths[-1])
    targets = np.full((*chosen.shape, length), PAD_ID, np.int32)
    weights = self._weights_of(positions) * self.skipped.weights(keys)
    cut, empty = [], []
    for key, weight, row, captions in zip(keys, weights, targets, tokens, strict=True):
      if weight and not captions[0]:
        empty.append(key)
      for line, ids in zip(row, captions, strict=True):
        line[: len(ids)] = ids[:length]
        if weight and len(ids) > length:
          cut.append(key)
    self._count_lost(_CUT, cut)
    self._count_lost(_EMPTY, empty)
    return {
      "image": pixels,
      "prompt_tokens": self._prompts[chosen],
      "target_tokens": targets,
      "target_weights": (targets != PAD_ID) * weights[:, None, None],
      "key": np.array(keys),
    }

  def _drawn(self, positions: np.ndarray) -> Iterator[tuple[Columns, list[int], list[str]]]:
    """Reads the pictures of positions one by one: the record, and of its drawn captions the language columns, texts."""
    indices = self._indices(positions)
    uniforms = draws.uniform(self.seed, "language", positions, len(self.languages))
    order = None if self._count_power is not None else draws.weighted_order(self._weights, uniforms).tolist()
    # Another start for every picture: else all would show their first caption in the same epoch.
    starts = draws.bits(self.seed, "turn", indices, 1)[:, 0] >> np.uint64(2)
    turns = (starts.astype(np.int64) + positions // len(self.source)).tolist()
    records = self.source.iterate(indices, parse_columns)
    for row, (record, turn) in enumerate(zip(records, turns, strict=True)):
      by_column = self._by_column(record)
      columns = self._order_by_count(by_column, uniforms[row]) if order is None else order[row]
      held = [column for column in columns if column in by_column]
      taken = list(itertools.islice(_turns(held, by_column, turn), self.captions_per_image)) if held else []
      yield record, [column for column, _ in taken], [record.texts[place].decode() for _, place in taken]

  def _order_by_count(self, by_column: dict[int, list[int]], uniforms: np.ndarray) -> list[int]:
    """The order of languages drawn by the number of a picture's captions in each."""
    counts = np.array([len(by_column.get(column, ())) for column in range(len(self.languages))], float)
    return draws.weighted_order(counts**self._count_power, uniforms[None])[0].tolist()

  def _encoded(
    self, columns: Sequence[Sequence[int]], texts: Sequence[Sequence[str]]
  ) -> tuple[np.ndarray, list[list[list[int]]]]:
    """Captions drawn, of B pictures -> language columns [B, K], ids [B][K], both filled up where there are too few."""
    chosen = np.full((len(columns), self.captions_per_image), len(self.languages), np.int64)
    tokens: list[list[list[int]]] = [[[]] * self.captions_per_image for _ in columns]
    # Of all pictures in one call, for a call takes longer than a caption.
    encoded = iter(self.vocabulary.encode_all([text for of_picture in texts for text in of_picture]))
    for row, of_picture in enumerate(columns):
      chosen[row, : len(of_picture)] = of_picture
      for slot in range(len(of_picture)):
        tokens[row][slot] = [*next(encoded), EOS_ID]
    return chosen, tokens

  def _by_column(self, record: Columns) -> dict[int, list[int]]:
    """Column of each of the stream's languages that a record has -> the places of its captions."""
    by_column = self._layouts.get(record.layout)
    if by_column is None:
      by_column = {}
      for place, language in enumerate(record.languages):
        column = self._columns.get(language)
        if column is not None:
          by_column.setdefault(column, []).append(place)
      if len(self._layouts) < _MAX_LAYOUTS:
        self._layouts[record.layout] = by_column
    return by_column

  def _sorted_batch(self, step: int) -> tuple[list[Columns], np.ndarray, np.ndarray, list[list[list[int]]]]:
    """The whole batch of a step when the pictures of a window are grouped by the length of their captions."""
    window = step // self.bucket_window
    with self._window_lock:
      if window not in self._windows:
        size = self.bucket_window * self.pictures
        positions = np.arange(size, dtype=np.int64) + window * size
        records, columns, texts = zip(*self._drawn(positions), strict=True)
        chosen, tokens = self._encoded(columns, texts)
        by_length = np.argsort([_longest([row]) for row in tokens], kind="stable")
        # Batches of a window come in drawn order, so that training does not go from short to long.
        order = np.argsort(draws.bits(self.seed, "window", np.array([window]), self.bucket_window)[0])
        batches = by_length.reshape(self.bucket_window, self.pictures)[order]
        self._windows[window] = (records, positions, chosen, tokens, batches)
        # Threads work on as many neighbouring steps as are made ahead.
        apart = -(-self.depth // self.bucket_window)
        for old in [number for number in self._windows if abs(number - window) > apart]:
          del self._windows[old]
      records, positions, chosen, tokens, batches = self._windows[window]
    picked = batches[step % self.bucket_window]
    picked_records = [records[index] for index in picked]
    return picked_records, positions[picked], chosen[picked], [tokens[index] for index in picked]


def _turns(drawn: Sequence[int], by_column: dict[int, list[int]], turn: int) -> Iterator[tuple[int, int]]:
  """A picture's captions (column, place) without end: one of each language drawn, then their next ones, then again."""
  while True:
    for column in drawn:
      places = by_column[column]
      yield column, places[turn % len(places)]
    for round_number in range(1, max(len(by_column[column]) for column in drawn)):
      for column in drawn:
        places = by_column[column]
        if round_number < len(places):
          yield column, places[(turn + round_number) % len(places)]


def _longest(tokens: list[list[list[int]]]) -> int:
  return max(len(ids) for row in tokens for ids in row)


@gin.configurable
class TagStream(PictureStream):
  """Pictures with their tags: the classes seen, in reading order.

  A batch holds `image` uint8 [B, H, W, 3], `tags` int32 [B, S]: class + 1, and 0 in slots that are empty, `weights`
  float32 [B]: 1 for each picture, 0 for one that is skipped, `key` [B].

  Args:
    mixture: as for `CaptionStream`; its corpus must have tags.
    split: record split, or a part of one.
    batch_size: pictures in the batch of all hosts.
    num_slots: S, tags of a picture at most; further ones are left out and counted in `lost`.
    image_size, seed, augment, workers, depth, prefetch_bytes, on_bad, bad_limit: as for `CaptionStream`.

  Raises:
    UsageError: the corpus is not there, or has no tags.
  """

  def __init__(
    self,
    mixture: str,
    split: str = "train",
    batch_size: int = 128,
    num_slots: int = 3,
    image_size: int = 224,
    seed: int = 0,
    augment: images.Augment | None = None,
    workers: int | None = None,
    depth: int = 16,
    prefetch_bytes: int = PREFETCH_BYTES,
    on_bad: str = "stop",
    bad_limit: int = 100,
  ):
    corpus = registration(mixture).corpus
    source = corpus.source(split)
    super().__init__(source, batch_size, image_size, seed, augment, workers, depth, prefetch_bytes)
    if num_slots < 1:
      raise UsageError(f"num_slots is {num_slots}: a picture needs at least one slot for its tags")
    self.skipped = SkippedPictures(on_bad, bad_limit)
    self.num_slots = num_slots
    self.tags: tuple[str, ...] = tuple(read_tags(corpus.location().data_dir))
    self._ids = {tag: number for number, tag in enumerate(self.tags, 1)}

  @property
  def num_classes(self) -> int:
    """The number of classes; a tag's id in a batch is its line in `tags.txt`, from 1."""
    return len(self.tags)

  def _part(
    self, step: int, positions: np.ndarray, pixels: np.ndarray
  ) -> tuple[list[str], np.ndarray, list[str]]:
    """Returns keys [N], tags int32 [N, S], and the key of each tag that had no slot."""
    records = self.source.read(self._indices(positions))
    weights = self._weights_of(positions)
    tags = np.zeros((len(records), self.num_slots), np.int32)
    beyond: list[str] = []
    for row, record, weight in zip(tags, records, weights, strict=True):
      try:
        ids = [self._ids[tag] for tag in record.tags]
      except KeyError as error:
        raise XmcapError(
          f"picture '{record.key}': tag {error} is not in {self.source.directory}/tags.txt: build it again"
        ) from None
      row[: len(ids)] = ids[: self.num_slots]
      if weight:
        beyond += [record.key] * (len(ids) - self.num_slots)
    self._load_pixels(pixels, ((record.key, record.image) for record in records), positions)
    return [record.key for record in records], tags, beyond

  def _joined(self, positions: np.ndarray, pixels: np.ndarray, parts: list[tuple]) -> Batch:
    keys, tags, beyond = zip(*parts, strict=True)
    self._count_lost(_TAGS, sum(beyond, []))
    keys = sum(keys, [])
    return {
      "image": pixels,
      "tags": np.concatenate(tags),
      "weights": self._weights_of(positions) * self.skipped.weights(keys),
      "key": np.array(keys),
    }
