"""Corpora as seqio tasks: one task a language, and one mixture over them.

`register_corpus("emoji36")` makes the tasks `emoji36_ar` ... `emoji36_zh` and the mixture `emoji36`, which
any seqio code can use:

  seqio.get_mixture_or_task("emoji36").get_dataset(sequence_length={"image": 64, "targets": 32})

An example has `image` uint8 [H, W, 3], `inputs` int32 [P] (the LangId prompt) and `targets` int32 [T],
ended by EOS. seqio reads and decodes a picture again for each of its captions; `xmcap.data.stream` takes the
languages, their rates, the records and the vocabulary from the same registration, and reads it once.

Gin gives the location of a corpus, which is asked only when something is read:

  emoji36.data_dir = "/data/emoji36"
  emoji36.vocabulary = "/data/emoji36/vocabulary.model"
"""

import dataclasses
import difflib
import functools
import os
import types
from collections.abc import Callable, Mapping, Sequence

import gin
import numpy as np
import seqio
import tensorflow as tf

from xmcap import languages as languages_lib
from xmcap.data import images, records
from xmcap.data.records import RecordSource, read_tags
from xmcap.data.vocabulary import Vocabulary
from xmcap.errors import UsageError, XmcapError
from xmcap.storage import addresses

_READ_BATCH = 16


@dataclasses.dataclass(frozen=True)
class Location:
  """The folder of a corpus's records, the file of its vocabulary, and a subset as of `xmcap score --subset` or ""."""

  data_dir: str
  vocabulary: str
  subset: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class RegisteredCorpus:
  """Image records with captions in several languages, and a vocabulary; `register_corpus` makes one.

  `name` is that of the mixture and of the gin configurable behind `location()`, which raises UsageError if unbound.
  """

  name: str
  languages: tuple[str, ...]
  splits: tuple[str, ...]
  location: Callable[[], Location]

  def __deepcopy__(self, memo) -> "RegisteredCorpus":
    return self  # gin copies its arguments, and a registration is one thing

  def source(self, split: str) -> RecordSource:
    """The records of a split, or of a part of one in TFDS's notation; UsageError or XmcapError as `RecordSource`."""
    place = self.location()
    for part in split.split("+"):
      name = part.split("[")[0].strip()
      if name not in self.splits:
        raise UsageError(
          f"{self.name} has no split '{name}', only {', '.join(self.splits)}: give one of these"
        )
    return _source(place.data_dir, split, place.subset)

  def vocabulary(self) -> Vocabulary:
    """The vocabulary; UsageError if there is none at its place."""
    return _vocabulary(self.location().vocabulary)


@functools.cache
def _source(directory: str, split: str, subset: str) -> RecordSource:
  source = RecordSource(directory, split)
  if not subset:
    return source
  from xmcap.scoring import subsets  # only a subset needs it

  places = {record.key: place for place, record in enumerate(source)}
  chosen = subsets.choose(subset, places)
  return source.subset(np.sort([places[key] for key in chosen.keys]), chosen.label)


_vocabulary = functools.cache(Vocabulary)


class CorpusVocabulary(seqio.SentencePieceVocabulary):
  """A corpus's vocabulary for seqio; its file is looked up when it is first used, not when registered."""

  def __init__(self, corpus: RegisteredCorpus):
    super().__init__(sentencepiece_model_file="")
    self._corpus = corpus

  @property
  def sentencepiece_model_file(self) -> str:
    return self._corpus.location().vocabulary

  def _model_context(self):
    vocabulary = self._corpus.vocabulary()  # may lie in any bucket, and errors are of one line
    return types.SimpleNamespace(tokenizer=vocabulary.processor, sp_model=vocabulary.model)

  def __eq__(self, other) -> bool:
    # seqio compares vocabularies when it mixes corpora, which then need a location.
    return isinstance(other, CorpusVocabulary) and (
      self._corpus is other._corpus or self.sentencepiece_model_file == other.sentencepiece_model_file
    )

  __hash__ = None


class RecordDataSource(seqio.DataSource):
  """seqio's view of the records of a corpus in one language: the index of every record.

  The record itself is read by the task's first preprocessor, so that seqio keeps only numbers in memory. Shuffling
  permutes all records by `seed`, alike in every epoch; sharding takes every num_shards-th record of that order.
  """

  def __init__(self, corpus: RegisteredCorpus, language: str, splits: Sequence[str]):
    super().__init__(splits=splits, caching_permitted=False, performs_internal_shuffling=True)
    self.corpus = corpus
    self.language = language

  @property
  def supports_arbitrary_sharding(self) -> bool:
    return True

  def list_shards(self, split: str) -> Sequence[str]:
    return [split]

  def num_input_examples(self, split: str) -> int:
    return len(self.corpus.source(split))

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


def _read_captions(
  dataset: tf.data.Dataset,
  corpus: RegisteredCorpus,
  language: str,
  sequence_length: Mapping[str, int] | None = None,
) -> tf.data.Dataset:
  """Index of a record -> an example for each of its captions in a language: `image`, `targets` (text), `key`.

  The picture is resized to sequence_length["image"] pixels a side, if given, else left as it is.
  """
  size = (sequence_length or {}).get("image")

  def read(indices: np.ndarray, splits: np.ndarray):
    pictures, texts, keys = [], [], []
    for record in corpus.source(splits[0].decode()).read(indices.tolist()):
      captions = [caption.text for caption in record.captions if caption.language == language]
      if captions:
        data, key = record.image, record.key
        pixels = images.load(data, key, size) if size else images.decode(data, key)
        # PNG is exact, and lets pictures of different sizes travel in one array.
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
  """Adds `inputs`, the ids of the LangId prompt, and turns `targets` into ids; the text is `targets_pretokenized`."""
  prompt = tf.constant(corpus.vocabulary().prompt(language), tf.int32)
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


def _locate(name: str, build_hint: str) -> Callable[..., Location]:
  def locate(data_dir: str = "", vocabulary: str = "") -> Location:
    """The folder of the records and a SentencePiece model, by default `vocabulary.model` in it: paths or `gs://...`."""
    if not data_dir:
      hint = f" ({build_hint} makes one)" if build_hint else ""
      raise UsageError(f"where the corpus {name} lies is not given: set --gin.{name}.data_dir=DIR{hint}")
    data_dir = os.path.expanduser(data_dir)
    return Location(data_dir, os.path.expanduser(vocabulary) or addresses.join(data_dir, "vocabulary.model"))

  return locate


def register_corpus(
  name: str,
  *,
  languages: Sequence[str] = languages_lib.TRAINED,
  rates: Mapping[str, float] | None = None,
  splits: Sequence[str] = ("train", "validation"),
  build_hint: str = "",
) -> RegisteredCorpus:
  """Registers a corpus: a seqio task a language, the mixture, and the gin configurable of its location.

  The mixture has the corpus's name, and the tasks are NAME_LANGUAGE. `rates` say how often a language is drawn,
  relative to the others. `build_hint` is the command that makes the corpus, for the message when it is not there.
  """
  codes = [languages_lib.get(language).code for language in languages]
  rates = dict(rates) if rates is not None else dict.fromkeys(codes, 1.0)
  if set(rates) != set(codes) or min(rates.values()) < 0 or not sum(rates.values()):
    raise UsageError(f"corpus {name}: give each of its languages, and no other, a rate of at least 0")
  corpus = RegisteredCorpus(
    name, tuple(codes), tuple(splits), gin.configurable(name, module="xmcap.tasks")(_locate(name, build_hint))
  )
  _add_tasks(corpus, rates)
  return corpus


_OWN: dict[str, RegisteredCorpus] = {}


def register_own(name: str, *, build_hint: str = "") -> RegisteredCorpus:
  """Registers a corpus of own pictures, whose languages and splits are found where it lies, when it is first asked for.

  `registration(name)` then makes its tasks and its mixture, and so does `register_built`.
  """
  location = gin.configurable(name, module="xmcap.tasks")(_locate(name, build_hint))
  return _OWN.setdefault(name, RegisteredCorpus(name, (), (), location))


def register_built(name: str, data_dir: str, vocabulary: str = "") -> RegisteredCorpus:
  """Registers the corpus in a folder that `xmcap data build folder` made: tasks NAME_LANGUAGE and the mixture NAME.

  Raises:
    UsageError: there is no such corpus, or the name is taken.
  """
  if name in {*seqio.TaskRegistry.names(), *seqio.MixtureRegistry.names(), *_OWN}:
    raise UsageError(f"a seqio mixture or task is named '{name}' already: give another name")
  _OWN[name] = RegisteredCorpus(name, (), (), functools.partial(_locate(name, ""), data_dir, vocabulary))
  return registration(name).corpus


def _settle(name: str) -> None:
  """Makes the tasks and the mixture of own pictures, anew where they now lie elsewhere and have other languages."""
  directory = _OWN[name].location().data_dir
  held = dataclasses.replace(
    _OWN[name], languages=records.read_languages(directory), splits=tuple(records.splits(directory))
  )
  made = seqio.MixtureRegistry.get(name).tasks if name in seqio.MixtureRegistry.names() else []
  if made:
    source = made[0].source
    assert isinstance(source, RecordDataSource)
    if (source.corpus.languages, source.corpus.splits) == (held.languages, held.splits):
      return
    seqio.MixtureRegistry.remove(name)
    for task in made:
      seqio.TaskRegistry.remove(task.name)
  _add_tasks(held, dict.fromkeys(held.languages, 1.0))


def register_part(
  name: str, of: RegisteredCorpus, *, splits: Sequence[str] = (), subset: str = ""
) -> RegisteredCorpus:
  """Registers a part of a corpus under a name of its own: some of its splits, or a subset of its pictures.

  It lies where the corpus lies. The subset is as for `xmcap score --subset`: `xm600:SEED` draws 600. `NAME.subset` in
  gin chooses another.
  """
  default = subset

  def locate(subset: str = default) -> Location:
    """The pictures of the part: a file of keys, one a line, or `xm600:SEED`."""
    return dataclasses.replace(of.location(), subset=subset)

  location = gin.configurable(name, module="xmcap.tasks")(locate) if subset else of.location
  part = RegisteredCorpus(name, of.languages, tuple(splits) or of.splits, location)
  _add_tasks(part, dict.fromkeys(of.languages, 1.0))
  return part


def _add_tasks(corpus: RegisteredCorpus, rates: Mapping[str, float]) -> None:
  name = corpus.name
  vocabulary = CorpusVocabulary(corpus)
  features = {
    "image": seqio.ContinuousFeature(dtype=tf.uint8, rank=3),
    "inputs": seqio.Feature(vocabulary, add_eos=False),
    "targets": seqio.Feature(vocabulary, add_eos=True),
  }
  # seqio allows no dash in a name.
  names = {code: f"{name}_{code.replace('-', '_')}" for code in corpus.languages}
  for code in corpus.languages:
    seqio.TaskRegistry.add(
      names[code],
      source=RecordDataSource(corpus, code, corpus.splits),
      preprocessors=[
        functools.partial(_read_captions, corpus=corpus, language=code),
        functools.partial(_tokenize, corpus=corpus, language=code),
        seqio.preprocessors.append_eos,
      ],
      output_features=features,
      # The source shuffles all records; a buffer would hold a thousand pictures for each language.
      shuffle_buffer_size=None,
    )
  seqio.MixtureRegistry.add(name, [(names[code], rates[code]) for code in corpus.languages])


@dataclasses.dataclass(frozen=True)
class Registration:
  """The corpus of a mixture or task, and the rate of each language that is drawn (all above 0)."""

  corpus: RegisteredCorpus
  rates: Mapping[str, float]


def registration(mixture: str) -> Registration:
  """Looks up a mixture or task by name; UsageError if there is none, or its tasks are not of one registered corpus."""
  if mixture in _OWN:
    _settle(mixture)
  known = {*seqio.TaskRegistry.names(), *seqio.MixtureRegistry.names()}
  if mixture not in known:
    nearest = difflib.get_close_matches(mixture, sorted(known), n=1, cutoff=0.4)
    hint = f"did you mean '{nearest[0]}'?" if nearest else "import the module that registers it"
    raise UsageError(f"no seqio mixture or task is named '{mixture}': {hint}")
  provider = seqio.get_mixture_or_task(mixture)
  tasks = seqio.get_subtasks(provider)
  sources = {task: task.source for task in tasks if isinstance(task.source, RecordDataSource)}
  if len(sources) < len(tasks):
    raise UsageError(f"'{mixture}' is not made of image records: name one made by register_corpus")
  corpora = {source.corpus.name: source.corpus for source in sources.values()}
  if len(corpora) > 1:
    raise UsageError(f"'{mixture}' mixes the corpora {', '.join(sorted(corpora))}: a stream reads one")
  rates = {
    source.language: provider.get_rate(task) if isinstance(provider, seqio.Mixture) else 1.0
    for task, source in sources.items()
  }
  rates = {language: float(rates[language]) for language in languages_lib.ordered(rates) if rates[language]}
  if not rates:
    raise XmcapError(f"'{mixture}' gives every language the rate 0: nothing can be drawn")
  (corpus,) = corpora.values()
  return Registration(corpus, rates)


@gin.configurable
def vocabulary_rows(mixture: str) -> int:
  """The rows that the vocabulary of a mixture's corpus needs: the vocab_size of a model made for it."""
  return registration(mixture).corpus.vocabulary().rows


@gin.configurable
def number_of_tags(mixture: str) -> int:
  """The classes that the corpus of a mixture has tags for: the num_classes of a tagger made for it."""
  return len(read_tags(registration(mixture).corpus.location().data_dir))
