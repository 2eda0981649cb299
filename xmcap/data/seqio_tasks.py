"""seqio's tasks, one per language, and mixtures for the registered corpora.

`register_corpus("emoji36")` makes the tasks `emoji36_ar` ... `emoji36_zh` and the mixture `emoji36`, which any seqio
code can use:

  seqio.get_mixture_or_task("emoji36").get_dataset(sequence_length={"image": 64, "targets": 32})

An example has `image` uint8 [H, W, 3], `inputs` int32 [P] (the LangId prompt) and `targets` int32 [T], including EOS.
seqio reads and decodes an image again for each of its captions; `xmcap.data.stream` reads it once.

The package imports this module as soon as seqio is imported, and not before: seqio imports TensorFlow, for which
captioning and `--explain` should not wait.
"""

import dataclasses
import functools
import types
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import seqio
import tensorflow as tf

from xmcap.data import images
from xmcap.data import registered_corpora as corpora
from xmcap.data.records import Record
from xmcap.data.registered_corpora import CorpusPart, RegisteredCorpus, Registration
from xmcap.errors import UsageError

_READ_BATCH = 16


class CorpusVocabulary(seqio.SentencePieceVocabulary):
  """A corpus's vocabulary for seqio; its file is located on first use, not at registration."""

  def __init__(self, corpus: RegisteredCorpus):
    super().__init__(sentencepiece_model_file="")
    self._corpus = corpus

  @property
  def sentencepiece_model_file(self) -> str:
    return self._corpus.location().vocabulary

  def _model_context(self):
    vocabulary = self._corpus.vocabulary()  # supports any bucket, and has one-line errors
    return types.SimpleNamespace(tokenizer=vocabulary.processor, sp_model=vocabulary.model)

  def __eq__(self, other) -> bool:
    # seqio compares vocabularies when it mixes corpora; these must then have a location.
    return isinstance(other, CorpusVocabulary) and (
      self._corpus is other._corpus
      or self.sentencepiece_model_file == other.sentencepiece_model_file
      or self._corpus.vocabulary().sha256 == other._corpus.vocabulary().sha256
    )

  __hash__ = None


class RecordDataSource(seqio.DataSource):
  """seqio data source for a part of a corpus in one language, which yields the index of every record.

  The task's first preprocessor reads the record itself, so seqio keeps only numbers in memory. Shuffling permutes all
  records by `seed`, the same in every epoch; sharding takes every num_shards-th record of that order.
  """

  def __init__(self, part: CorpusPart, language: str):
    splits = tuple(dict.fromkeys((*part.corpus.splits, *part.splits)))
    super().__init__(splits=splits, caching_permitted=False, performs_internal_shuffling=True)
    self.part = part
    self.language = language

  @property
  def supports_arbitrary_sharding(self) -> bool:
    return True

  def list_shards(self, split: str) -> Sequence[str]:
    return [split]

  def num_input_examples(self, split: str) -> int:
    return len(self.part.source(split))

  def get_dataset(
    self,
    split: str = "train",
    shuffle: bool = True,
    seed: int | None = None,
    shard_info: seqio.ShardInfo | None = None,
    *,
    sequence_length: Mapping[str, int] | None = None,
    use_cached: bool = False,
    num_epochs: int | None = 1,
  ) -> tf.data.Dataset:
    """Yields {"index": int64, "split": string} for each record."""
    count = self.num_input_examples(split)
    dataset = tf.data.Dataset.range(count)
    if shard_info:
      dataset = dataset.shard(shard_info.num_shards, shard_info.index)
    if shuffle:
      chosen = np.random.default_rng().integers(2**31) if seed is None else seed
      order = tf.stack([tf.cast(chosen, tf.int64), tf.constant(0, tf.int64)])
      last = tf.constant(count - 1, tf.int64)
      dataset = dataset.map(
        lambda index: tf.random.experimental.index_shuffle(index, order, last)  # pyright: ignore[reportAttributeAccessIssue]
      )
    return dataset.map(lambda index: {"index": index, "split": tf.constant(split)})


def texts_of(record: Record, part: CorpusPart, language: str) -> list[str]:
  """Returns the captions of a record in a language, of the sources of the part."""
  return [
    caption.text
    for caption in record.captions
    if caption.language == language and (not part.sources or caption.source in part.sources)
  ]


def _read_captions(
  dataset: tf.data.Dataset,
  part: CorpusPart,
  language: str,
  sequence_length: Mapping[str, int] | None = None,
) -> tf.data.Dataset:
  """Maps the index of a record to an example per caption in a language: `image`, `targets` (text), `key`.

  The image is resized to sequence_length["image"] pixels per side, if given.
  """
  size = (sequence_length or {}).get("image")

  def read(indices: np.ndarray, splits: np.ndarray):
    pictures, texts, keys = [], [], []
    for record in part.source(splits[0].decode()).read(indices.tolist()):
      captions = texts_of(record, part, language)
      if captions:
        data, key = record.image, record.key
        pixels = images.load(data, key, size) if size else images.decode(data, key)
        # PNG is lossless, and allows images of different sizes in one array.
        encoded = tf.io.encode_png(pixels, compression=0).numpy()
        pictures += [encoded] * len(captions)
        texts += [text.encode() for text in captions]
        keys += [key.encode()] * len(captions)
    return tuple(np.array(column, object) for column in (pictures, texts, keys))

  def flat_read(batch):
    columns = tf.numpy_function(read, (batch["index"], batch["split"]), (tf.string,) * 3)
    for column in columns:
      column.set_shape([None])
    named = dict(zip(("image", "targets", "key"), columns, strict=True))
    return tf.data.Dataset.from_tensor_slices(named)  # pyright: ignore[reportArgumentType]

  def decode(example):
    image = tf.io.decode_png(example["image"], channels=3)
    image.set_shape([size, size, 3])
    return {**example, "image": image}

  return dataset.batch(_READ_BATCH).flat_map(flat_read).map(decode, num_parallel_calls=tf.data.AUTOTUNE)


def _tokenize(
  dataset: tf.data.Dataset,
  output_features: Mapping[str, seqio.utils.Feature],
  corpus: RegisteredCorpus,
  language: str,
) -> tf.data.Dataset:
  """Adds `inputs`, the ids of the LangId prompt, and tokenises `targets`; the text stays in `targets_pretokenized`."""
  own = corpus.vocabulary()
  if own.reads_words:
    raise UsageError(f"{own.path}: a vocabulary of words, which seqio's tasks do not encode: use xmcap train")
  prompt = tf.constant(own.prompt(language), tf.int32)
  vocabulary = output_features["targets"].vocabulary
  return dataset.map(
    lambda example: {
      **example,
      "inputs": prompt,
      "targets": vocabulary.encode_tf(example["targets"]),
      "targets_pretokenized": example["targets"],
    },
    num_parallel_calls=tf.data.AUTOTUNE,
  )


def _add(registered: Registration) -> None:
  """Adds a mixture to seqio's registry, and those of its tasks that are not there yet."""
  rates: dict[str, float] = {}
  for name, part, language in _tasks_of(registered):
    if name not in seqio.TaskRegistry.names():
      _add_task(name, part, language)
    of_languages = sum(part.rates.values()) if len(registered.parts) > 1 else 1.0
    rates[name] = rates.get(name, 0.0) + part.rate * part.rates[language] / of_languages
  seqio.MixtureRegistry.add(registered.name, list(rates.items()))


def _tasks_of(registered: Registration) -> Iterator[tuple[str, CorpusPart, str]]:
  """Yields (name, part, language) of the tasks of a mixture.

  A part of a mixture of several corpora uses the tasks of its corpus, unless it has sources or splits of its own.
  """
  for number, part in enumerate(registered.parts, 1):
    names = part.corpus.task_names
    for language in part.rates:
      own = f"{registered.name}_{number}_{language.replace('-', '_')}"
      yield own if _has_own_tasks(part) else names[language], part, language


def _has_own_tasks(part: CorpusPart) -> bool:
  return bool(part.sources or part.splits)


def _add_task(name: str, part: CorpusPart, language: str) -> None:
  vocabulary = CorpusVocabulary(part.corpus)
  seqio.TaskRegistry.add(
    name,
    source=RecordDataSource(part, language),
    preprocessors=[
      functools.partial(_read_captions, part=part, language=language),
      functools.partial(_tokenize, corpus=part.corpus, language=language),
      seqio.preprocessors.append_eos,
    ],
    output_features={
      "image": seqio.ContinuousFeature(dtype=tf.uint8, rank=3),
      "inputs": seqio.Feature(vocabulary, add_eos=False),
      "targets": seqio.Feature(vocabulary, add_eos=True),
    },
    # The source shuffles all records, while a buffer would keep a thousand images per language.
    shuffle_buffer_size=None,
  )


def _remove(registered: Registration) -> None:
  """Removes what `_add` added."""
  seqio.MixtureRegistry.remove(registered.name)
  for name, part, _ in _tasks_of(registered):
    if registered.is_corpus or _has_own_tasks(part):
      seqio.TaskRegistry.remove(name)


def _find(mixture: str) -> Registration | None:
  """Looks up a mixture or task that other code has added to seqio; UsageError if it has no image records."""
  if mixture not in {*seqio.TaskRegistry.names(), *seqio.MixtureRegistry.names()}:
    return None
  provider = seqio.get_mixture_or_task(mixture)
  tasks = seqio.get_subtasks(provider)
  sources = {task: task.source for task in tasks if isinstance(task.source, RecordDataSource)}
  if len(sources) < len(tasks):
    raise UsageError(f"'{mixture}' does not consist of image records: choose one made by register_corpus")
  parts: dict[tuple, CorpusPart] = {}
  for task, source in sources.items():
    rate = provider.get_rate(task) if isinstance(provider, seqio.Mixture) else 1.0
    part = source.part
    # The tasks of a corpus belong together, unless they have other sources or splits.
    key = (part.corpus.name, part.sources, tuple(part.splits.items()))
    rates = {**(parts[key].rates if key in parts else {}), source.language: rate}
    parts[key] = dataclasses.replace(part, rates=rates, rate=sum(rates.values()))
  return corpora.of_parts(mixture, list(parts.values()))


def mirror(_seqio: types.ModuleType) -> None:
  """Adds all corpora and mixtures to seqio, now and as they are registered."""
  corpora.add_mirror(corpora.Mirror(_add, _remove, _find))
