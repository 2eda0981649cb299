"""The stream: position -> example. Seeded, stateless, resumable at any step at the same cost.

A position is the number of a picture counted from the start of training: step n of a stream with B
pictures a batch holds the positions n B to (n + 1) B - 1, and a host takes its contiguous share of them.
All else is a function of (seed, position): which picture (a permutation of the split, another one each
epoch), which languages, which caption of a language, which crop. So a run that starts again at any step,
or on another number of hosts, sees what an undisturbed one would have seen. (`bucket_window` deals the
positions of a few batches out anew among those batches; this too depends on nothing else.)
"""

import copy
import itertools
import threading
from collections.abc import Iterator, Sequence

import gin
import numpy as np
from absl import logging

from xmcap.data import draws, images
from xmcap.data.prefetch import prefetch
from xmcap.data.records import Record, RecordSource, read_tags
from xmcap.data.tasks import registration
from xmcap.data.vocabulary import EOS_ID, PAD_ID, Vocabulary
from xmcap.errors import UsageError, XmcapError

Batch = dict[str, np.ndarray]

_CUT = "captions cut at the target length"
_EMPTY = "pictures without a caption in these languages"
_TAGS = "tags beyond the last slot"


class _PictureStream:
  """What all streams share: the order of pictures, their share by host, pixels, and prefetching."""

  def __init__(
    self,
    source: RecordSource,
    pictures: int,
    image_size: int,
    seed: int,
    augment: images.Augment | None,
    workers: int,
  ):
    if pictures < 1 or image_size < 1:
      raise UsageError(
        f"a batch of {pictures} pictures of {image_size} pixels is empty: give at least 1 of each"
      )
    self.source = source
    self.pictures = pictures
    self.image_size = image_size
    self.seed = seed
    self.augment = augment
    self.workers = workers
    self._lock = threading.Lock()
    self._lost: dict[str, int] = {}

  def resized(self, pictures: int) -> "_PictureStream":
    """The same split with another number of pictures a batch, for a try of what comes after the stream."""
    stream = copy.copy(self)
    stream.pictures, stream._lost = pictures, {}
    return stream

  @property
  def images_per_epoch(self) -> int:
    """Pictures in the split: every one comes up once in as many positions."""
    return len(self.source)

  @property
  def steps_per_epoch(self) -> float:
    """Steps in which every picture comes up once."""
    return len(self.source) / self.pictures

  def batch(self, step: int, host_index: int = 0, host_count: int = 1) -> Batch:
    """A host's share of the batch of a step, whatever steps were asked for before."""
    raise NotImplementedError

  def batches(
    self,
    start_step: int = 0,
    host_index: int = 0,
    host_count: int = 1,
    num_steps: int | None = None,
    depth: int = 4,
  ) -> Iterator[Batch]:
    """Yields the batches from a step on, computed ahead on threads.

    Args:
      start_step: the first step.
      host_index, host_count: which share.
      num_steps: how many; None: for ever.
      depth: batches held or under way at most.

    Returns:
      An iterator; an error in the making of a batch is raised when its turn comes; `close()` ends the
      threads.
    """
    self._share(0, host_index, host_count)
    steps = itertools.count(start_step)
    if num_steps is not None:
      steps = itertools.islice(steps, num_steps)
    return prefetch(lambda step: self.batch(step, host_index, host_count), steps, self.workers, depth)

  def _share(self, step: int, host_index: int, host_count: int) -> np.ndarray:
    """The positions of a host's share: int64 [pictures / host_count]."""
    if not 0 <= host_index < host_count:
      raise UsageError(f"host {host_index} of {host_count}: hosts count from 0")
    if self.pictures % host_count:
      raise UsageError(
        f"{self.pictures} pictures a batch cannot be shared by {host_count} hosts: make it a multiple"
      )
    if step < 0:
      raise UsageError(f"step {step}: steps count from 0")
    share = self.pictures // host_count
    return np.arange(share, dtype=np.int64) + step * self.pictures + host_index * share

  def _indices(self, positions: np.ndarray) -> np.ndarray:
    return draws.permuted(self.seed, positions, len(self.source))

  def _pixels(self, records: Sequence[Record], positions: np.ndarray) -> np.ndarray:
    size = self.image_size
    randoms = [None] * len(records)
    if self.augment is not None:
      randoms = draws.uniform(self.seed, "augment", positions, images.NUM_DRAWS)
    pixels = np.empty((len(records), size, size, 3), np.uint8)
    for row, record, random in zip(pixels, records, randoms, strict=True):
      row[...] = images.load(record.image, record.key, size, self.augment, random)
    return pixels

  def _count_lost(self, what: str, keys: Sequence[str]) -> None:
    """Counts what did not fit, a key each time; the first of a kind is said at once."""
    if not keys:
      return
    with self._lock:
      first = what not in self._lost
      self._lost[what] = self._lost.get(what, 0) + len(keys)
    if first:
      logging.warning("%s: first in picture %s; counted from here on", what, keys[0])

  @property
  def lost(self) -> dict[str, int]:
    """What did not fit into the batches made so far (those made ahead included): reason -> count."""
    with self._lock:
      return dict(self._lost)


@gin.configurable
class CaptionStream(_PictureStream):
  """Pictures with K captions each, in languages drawn by weight.

  The K captions of a picture are in K different languages, drawn without replacement by the rates of the
  seqio mixture among the languages that the picture has. A picture with fewer than K languages goes on
  with further captions of them, in the same order, and repeats itself only when all are used up. Of
  several captions in a language the picture takes turns by epoch.

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
      captions together, so that most batches are short. Each host then reads the captions of the whole
      window. 1 leaves the order alone.
    workers: threads that make batches.

  Raises:
    UsageError: sizes that do not fit together, an unknown mixture, or a corpus that is not there.
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
    workers: int = 2,
  ):
    if captions_per_image < 1 or batch_size < 1 or batch_size % captions_per_image:
      raise UsageError(
        f"a batch of {batch_size} captions cannot hold {captions_per_image} an image: make it a multiple"
      )
    registered = registration(mixture)
    source = registered.corpus.source(split)
    super().__init__(source, batch_size // captions_per_image, image_size, seed, augment, workers)
    self.vocabulary: Vocabulary = registered.corpus.vocabulary()
    self.languages: tuple[str, ...] = tuple(registered.rates)
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
    self._weights = np.array(list(registered.rates.values()))
    self._columns = {language: column for column, language in enumerate(self.languages)}
    # The last row, all pads, is for a picture with no caption in these languages.
    self._prompts = np.full((len(self.languages) + 1, prompt_length), PAD_ID, np.int32)
    for row, language in zip(self._prompts[:-1], self.languages, strict=True):
      prompt = self.vocabulary.prompt(language)
      if len(prompt) > prompt_length:
        raise UsageError(
          f"the prompt of '{language}' has {len(prompt)} pieces: raise prompt_length, now {prompt_length}"
        )
      row[: len(prompt)] = prompt
    self._windows: dict[int, tuple[list[Record], np.ndarray, np.ndarray, list]] = {}
    self._window_lock = threading.Lock()

  def resized(self, pictures: int) -> "CaptionStream":
    """As in every stream; with one length of targets, the largest, and pictures in drawn order."""
    stream = super().resized(pictures)
    stream.target_lengths, stream.bucket_window = self.target_lengths[-1:], 1
    return stream

  @property
  def truncated(self) -> int:
    """Captions so far that were cut at the target length (batches made ahead included)."""
    return self.lost.get(_CUT, 0)

  def batch(self, step: int, host_index: int = 0, host_count: int = 1) -> Batch:
    """A host's share of the batch of a step, whatever steps were asked for before.

    Returns:
      `image` uint8 [B, H, W, 3], `prompt_tokens` int32 [B, K, P], `target_tokens` int32 [B, K, T], ended
      by EOS and filled up with pads, `target_weights` float32 [B, K, T], 1 on every piece and the end,
      `key` [B] strings; B is the share of this host. A caption that is too long keeps its first T pieces
      and has no end, so that no model learns to stop there; it is counted in `truncated`. A picture that
      has no caption in these languages has weights 0 and is counted in `lost`.

    Raises:
      UsageError: the hosts cannot share the batch.
      XmcapError: a record or picture cannot be read; names it.
    """
    positions = self._share(step, host_index, host_count)
    if self.bucket_window > 1:
      share = slice(positions[0] - step * self.pictures, positions[-1] + 1 - step * self.pictures)
      records, positions, chosen, tokens = self._sorted_batch(step)
      records, positions, chosen, longest = records[share], positions[share], chosen[share], _longest(tokens)
      tokens = tokens[share]
    else:
      records, chosen, tokens = self._captions(positions)
      # The other hosts' captions are not known here, and all must agree on T.
      longest = _longest(tokens) if host_count == 1 else self.target_lengths[-1]
    length = next((size for size in self.target_lengths if size >= longest), self.target_lengths[-1])
    targets = np.full((*chosen.shape, length), PAD_ID, np.int32)
    cut, empty = [], []
    for record, row, captions in zip(records, targets, tokens, strict=True):
      if not captions[0]:
        empty.append(record.key)
      for line, ids in zip(row, captions, strict=True):
        line[: len(ids)] = ids[:length]
        if len(ids) > length:
          cut.append(record.key)
    self._count_lost(_CUT, cut)
    self._count_lost(_EMPTY, empty)
    return {
      "image": self._pixels(records, positions),
      "prompt_tokens": self._prompts[chosen],
      "target_tokens": targets,
      "target_weights": (targets != PAD_ID).astype(np.float32),
      "key": np.array([record.key for record in records]),
    }

  def _captions(self, positions: np.ndarray) -> tuple[list[Record], np.ndarray, list[list[list[int]]]]:
    """Reads records, draws and encodes captions: records [B], language columns [B, K], ids [B][K]."""
    indices = self._indices(positions)
    records = self.source.read(indices)
    captions_per_image = self.captions_per_image
    order = draws.weighted_order(
      self._weights, draws.uniform(self.seed, "language", positions, len(self.languages))
    ).tolist()
    # Another start for every picture: else all would show their first caption in the same epoch.
    starts = draws.bits(self.seed, "turn", indices, 1)[:, 0] >> np.uint64(2)
    turns = starts.astype(np.int64) + positions // len(self.source)
    chosen = np.full((len(records), captions_per_image), len(self.languages), np.int64)
    texts: list[str] = []
    owners: list[tuple[int, int]] = []
    for row, (record, columns, turn) in enumerate(zip(records, order, turns.tolist(), strict=True)):
      by_column: dict[int, list[str]] = {}
      for caption in record.captions:
        column = self._columns.get(caption.language)
        if column is not None:
          by_column.setdefault(column, []).append(caption.text)
      drawn = [column for column in columns if column in by_column]
      if not drawn:
        continue
      taken = itertools.islice(_turns(drawn, by_column, turn), captions_per_image)
      for slot, (column, text) in enumerate(taken):
        chosen[row, slot] = column
        texts.append(text)
        owners.append((row, slot))
    tokens: list[list[list[int]]] = [[[] for _ in range(captions_per_image)] for _ in records]
    for (row, slot), ids in zip(owners, self.vocabulary.encode_all(texts), strict=True):
      tokens[row][slot] = [*ids, EOS_ID]
    return records, chosen, tokens

  def _sorted_batch(self, step: int) -> tuple[list[Record], np.ndarray, np.ndarray, list[list[list[int]]]]:
    """The whole batch of a step when the pictures of a window are grouped by the length of their captions."""
    window = step // self.bucket_window
    with self._window_lock:
      if window not in self._windows:
        size = self.bucket_window * self.pictures
        positions = np.arange(size, dtype=np.int64) + window * size
        records, chosen, tokens = self._captions(positions)
        by_length = np.argsort([_longest([row]) for row in tokens], kind="stable")
        # Batches of a window come in drawn order, so that training does not go from short to long.
        order = np.argsort(draws.bits(self.seed, "window", np.array([window]), self.bucket_window)[0])
        batches = by_length.reshape(self.bucket_window, self.pictures)[order]
        self._windows[window] = (records, positions, chosen, tokens, batches)
        # Threads work on neighbouring steps: the last window and this one are enough.
        for old in [number for number in self._windows if abs(number - window) > 1]:
          del self._windows[old]
      records, positions, chosen, tokens, batches = self._windows[window]
    picked = batches[step % self.bucket_window]
    picked_records = [records[index] for index in picked]
    return picked_records, positions[picked], chosen[picked], [tokens[index] for index in picked]


def _turns(drawn: Sequence[int], by_column: dict[int, list[str]], turn: int) -> Iterator[tuple[int, str]]:
  """A picture's captions without end: one of each language drawn, then their next ones, then again."""
  while True:
    for round_number in range(max(len(by_column[column]) for column in drawn)):
      for column in drawn:
        texts = by_column[column]
        if round_number < len(texts):
          yield column, texts[(turn + round_number) % len(texts)]


def _longest(tokens: list[list[list[int]]]) -> int:
  return max(len(ids) for row in tokens for ids in row)


@gin.configurable
class TagStream(_PictureStream):
  """Pictures with their tags: the classes seen, in reading order.

  Args:
    mixture: as for `CaptionStream`; its corpus must have tags.
    split: record split, or a part of one.
    batch_size: pictures in the batch of all hosts.
    num_slots: S, tags of a picture at most; further ones are left out and counted in `lost`.
    image_size, seed, augment, workers: as for `CaptionStream`.

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
    workers: int = 2,
  ):
    corpus = registration(mixture).corpus
    super().__init__(corpus.source(split), batch_size, image_size, seed, augment, workers)
    if num_slots < 1:
      raise UsageError(f"num_slots is {num_slots}: a picture needs at least one slot for its tags")
    self.num_slots = num_slots
    self.tags: tuple[str, ...] = tuple(read_tags(corpus.location().data_dir))
    self._ids = {tag: number for number, tag in enumerate(self.tags, 1)}

  @property
  def num_classes(self) -> int:
    """The number of classes; a tag's id in a batch is its line in `tags.txt`, from 1."""
    return len(self.tags)

  def batch(self, step: int, host_index: int = 0, host_count: int = 1) -> Batch:
    """A host's share of the batch of a step.

    Returns:
      `image` uint8 [B, H, W, 3], `tags` int32 [B, S]: class + 1, and 0 in slots that are empty, `key` [B].

    Raises:
      XmcapError: a record cannot be read, or has a tag that `tags.txt` lacks; names it.
    """
    positions = self._share(step, host_index, host_count)
    records = self.source.read(self._indices(positions))
    tags = np.zeros((len(records), self.num_slots), np.int32)
    for row, record in zip(tags, records, strict=True):
      try:
        ids = [self._ids[tag] for tag in record.tags]
      except KeyError as error:
        raise XmcapError(
          f"picture '{record.key}': tag {error} is not in {self.source.directory}/tags.txt: build it again"
        ) from None
      row[: len(ids)] = ids[: self.num_slots]
      self._count_lost(_TAGS, [record.key] * (len(ids) - self.num_slots))
    return {
      "image": self._pixels(records, positions),
      "tags": tags,
      "key": np.array([record.key for record in records]),
    }
