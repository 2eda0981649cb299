"""Writes embeddings of images, captions and class names by a dual tower or a Word2VisualVec, for `xmcap score`.

The processes of a run share the parts of each output. A finished part is not made again, so a run that was killed goes
on and ends with the same bytes.
"""

import dataclasses
import hashlib
import itertools
import json
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import jax
import msgspec
import numpy as np

from xmcap import digests, wording
from xmcap.data import records
from xmcap.data.records import parse_columns
from xmcap.errors import UsageError
from xmcap.evaluation import image_features
from xmcap.evaluation import parts as parts_lib
from xmcap.evaluation.text_embedding import EmbedsTexts
from xmcap.files import addresses, files, plans
from xmcap.files.bucket_paths import epath
from xmcap.models import model_json, stacking
from xmcap.models.parts import load as load_class
from xmcap.progress import Say
from xmcap.ranked import prompts as prompts_lib
from xmcap.ranked.retrieval import CaptionRows
from xmcap.ranked.zero_shot import Labels
from xmcap.reading.embedding_files import KEYS, PICTURES
from xmcap.scoring import vectors
from xmcap.training.checkpoints.weights import read_all
from xmcap.training.hosts import join as hosts

NAME, VERSION = "embeddings", "2"
# Rows that are embedded and written at once.
_PART = {"pictures": 4_096, vectors.CAPTIONS: 16_384, vectors.PREDICTIONS: 16_384, "labels": 1_024}

_EMBEDDERS = {
  "words": "xmcap.families.word2visualvec.embedder:FeatureEmbedder",
  "dual": "xmcap.families.dual.embedder:DualEmbedder",
}
"""Part of a model -> the class that embeds with it."""


class Embedder(Protocol):
  """A model that embeds images and texts into one space; `texts` embeds texts.

  It is made from a run's folder, its model and parameters, and the file of stored features of images, "" if there is
  none.
  """

  texts: EmbedsTexts

  def __init__(self, folder: epath.Path, model: model_json.Model, params: Any, features: str = ""): ...

  @property
  def preprocessing(self) -> str:
    """How images and texts are prepared."""
    ...

  def texts_of(self, language: str, adapters: str = "") -> EmbedsTexts:
    """Returns what embeds texts of a language, with its adapter in the folder `adapters`, if it has one there."""
    ...

  def pictures(self, paths: Sequence[str], read: Callable[[str], bytes]) -> np.ndarray:
    """Returns the embeddings of images, float32 [N, E]."""
    ...


@dataclasses.dataclass(frozen=True)
class Inputs:
  """The images and texts to embed.

  Attributes:
    images: key -> argument of `read`, by default a file.
    captions: language code -> captions.
    predictions: language code -> captions of systems, each once.
    prefix: goes before every caption and prediction.
    labels: language code -> classes.
    prompts: language code -> prompts; without prompts the names of classes are embedded alone.
    read: returns the bytes of an image.
    tokenized: language code -> the words of each caption, joined by spaces, or "" where they are unknown.
    features: file or folder of the stored features of the images; "": none.
  """

  images: Mapping[str, str] = dataclasses.field(default_factory=dict)
  captions: Mapping[str, CaptionRows] = dataclasses.field(default_factory=dict)
  labels: Mapping[str, Labels] = dataclasses.field(default_factory=dict)
  prompts: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
  read: Callable[[str], bytes] = lambda path: epath.Path(path).read_bytes()
  tokenized: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
  features: str = ""
  predictions: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
  prefix: str = ""

  def described(self) -> dict[str, Any]:
    """Counts and hashes that identify these inputs."""
    texts = {
      "pictures": list(self.images),
      "captions": {language: texts_of_kind.texts for language, texts_of_kind in self.captions.items()},
      "labels": {language: texts_of_kind.names for language, texts_of_kind in self.labels.items()},
      "prompts": dict(self.prompts),
    }
    if self.predictions:
      texts["predictions"] = {
        language: list(texts_of_kind) for language, texts_of_kind in self.predictions.items()
      }
    if any(any(words) for words in self.tokenized.values()):
      texts["tokenized"] = {language: list(words) for language, words in self.tokenized.items()}
    return {
      name: [len(texts_of_kind), digests.of_json(texts_of_kind)] for name, texts_of_kind in texts.items()
    }


def of_corpus(directory: str, split: str, languages: Sequence[str]) -> Inputs:
  """The images of a built corpus in the order of its records, and the first caption of each in these languages.

  Raises:
    UsageError: there is no such split, or an image has no caption in a language.
  """
  source = records.RecordSource(directory, split)
  images, texts = {}, {language: [] for language in languages}
  tokenized = {language: [] for language in languages}
  for number, record in enumerate(source.iterate(range(len(source)), parse_columns)):
    images[record.key] = str(number)
    of_record = [language.decode() for language in record.languages]
    for language, of_language in texts.items():
      if language not in of_record:
        raise UsageError(
          f"{directory}, split '{split}': picture '{record.key}' has no caption in '{language}'"
        )
      place = of_record.index(language)
      of_language.append(record.texts[place].decode())
      tokenized[language].append(record.tokenized[place].decode() if record.tokenized else "")
  places = np.arange(len(images))
  captions = {language: CaptionRows(places, tuple(of_language)) for language, of_language in texts.items()}
  return Inputs(images, captions, read=lambda number: source[int(number)].image, tokenized=tokenized)


def load(model_dir: str, step: int | None = None, features: str = "", weights: str | None = None) -> Embedder:
  """Loads a model from a run's folder, or a dual tower that `xmcap convert` wrote.

  Args:
    model_dir, step, weights: as in `image_features.read_params`.
    features: stored features of images, for a Word2VisualVec; "": none.

  Raises:
    UsageError: the folder holds another model, or none, or lacks its tokenizer or its words.
  """
  folder = epath.Path(model_dir)
  model = _read_model(folder)
  params = image_features.read_params(model_dir, step, weights)
  made: Embedder = load_class(_EMBEDDERS[_part(model)])(folder, model, params, features)
  return made


def write(
  out: str | os.PathLike,
  inputs: Inputs,
  model_dir: str,
  step: int | None = None,
  weights: str | None = None,
  adapters: str = "",
  say: Say = lambda line: None,
) -> None:
  """Writes the folder of `scoring.vectors`, and `labels/CODE.npy`, for the inputs that there are.

  All processes of a run must call it, with the same inputs and a folder that all of them see.

  Args:
    out: the folder; finished parts of the same inputs and model are kept.
    model_dir, step, weights: as in `load`.
    adapters: folder with a folder CODE for each language that has an adapter; "": none.
    say: takes lines of progress.

  Raises:
    UsageError: there is no such model, the folder holds something else, the tokenizer finds nothing in a text that is
      not empty, or the processes have different inputs.
    XmcapError: an image cannot be read, or the disk is full or cannot be written.
  """
  out = pathlib.Path(out)
  model = _read_model(epath.Path(model_dir))
  if adapters and "words" in model.parts:
    raise UsageError(f"{adapters}: a Word2VisualVec takes no adapter: leave --adapters out")
  check_adapters(adapters, sorted({*inputs.captions, *inputs.predictions, *inputs.labels}), say)
  step = image_features.chosen_step(model_dir, step)
  options = {"model_dir": addresses.absolute(model_dir), "step": step, **inputs.described()}
  options |= image_features.which_weights(model_dir, step, weights)
  if adapters:
    options["adapters"] = os.path.abspath(adapters)
  if inputs.prefix:
    options["prefix"] = inputs.prefix
  if inputs.features:
    options["features"] = os.path.abspath(inputs.features)
  if len(set(hosts.agree("inputs to embed", json.dumps(options)))) > 1:
    raise UsageError("the processes have different inputs: give each the same options and files")

  def embed_parts(work_dir: pathlib.Path) -> Embedder:
    if hosts.current():
      hosts.check_folder(epath.Path(work_dir))
    made = load(model_dir, step, inputs.features, weights)
    _embed_parts(work_dir, inputs, made, adapters, say)
    return made

  def make(work_dir: pathlib.Path) -> dict[str, Any]:
    hosts.agree("embeddings", "begun")
    made = embed_parts(work_dir)
    cut, unread = _join_parts(out, work_dir, inputs)
    name = f"{pathlib.PurePath(model_dir).name}{'' if step is None else f', step {step}'}"
    languages = sorted({*inputs.captions, *inputs.predictions, *inputs.labels})
    card = vectors.Card(
      name, _fingerprint(model, made, adapters, languages), made.preprocessing, inputs.prefix
    )
    files.write_text(out / vectors.CARD, json.dumps(msgspec.to_builtins(card), ensure_ascii=False) + "\n")
    if cut:
      say(f"texts of more than {made.texts.longest}, which were cut: {cut:,}")
    if unread:
      captions = sum(map(len, _texts(inputs).values()))
      say(
        f"{unread:,} of {captions:,} captions are empty or have no known word, and are embedded as empty texts"
      )
    return {"cut": cut, **({"unread": unread} if unread else {})}

  # Process 0 finds out whether anything is left to embed, and joins the parts.
  if jax.process_index() == 0:
    plan = {"corpus": NAME, "version": VERSION, "options": options, "inputs": {}}
    if plans.carry_out(out, plan, make)[1]:
      hosts.agree("embeddings", "there")
      say(f"{out} holds these embeddings already")
  elif hosts.agree("embeddings", "")[0] == "begun":
    embed_parts(out / plans.WORK)


def _part(model: model_json.Model) -> str:
  return "words" if "words" in model.parts else "dual"


def _read_model(folder: epath.Path) -> model_json.Model:
  model = model_json.of_folder(folder)
  is_dual = "dual" in model.parts and model.image_config() is not None and model.text_config() is not None
  if not is_dual and "words" not in model.parts:
    raise UsageError(
      f"{folder} holds no dual tower: give a run of runs/contrastive.gin or runs/w2vv.gin, or what `xmcap convert"
      " --part=dual` wrote"
    )
  return model


@dataclasses.dataclass(frozen=True)
class _Part:
  """Rows `start` to `stop` of `pictures.npy`, or of the captions or labels of a language."""

  kind: str
  language: str
  start: int
  stop: int

  def path(self, work_dir: pathlib.Path) -> pathlib.Path:
    return work_dir / f"{self.kind}-{self.language}-{self.start}-{self.stop}.npz"


def _outputs(inputs: Inputs) -> list[list[_Part]]:
  """The parts of each file of embeddings, in order."""
  counts = {
    ("pictures", ""): len(inputs.images),
    **{place: len(texts) for place, texts in _texts(inputs).items()},
    **{("labels", language): len(classes.names) for language, classes in inputs.labels.items()},
  }
  return [
    [_Part(kind, language, start, min(start + _PART[kind], count)) for start in range(0, count, _PART[kind])]
    for (kind, language), count in counts.items()
    if count
  ]


def _texts(inputs: Inputs) -> dict[tuple[str, str], Sequence[str]]:
  """Returns (folder, language code) -> captions, for captions and predictions."""
  return {
    **{(vectors.CAPTIONS, language): captions.texts for language, captions in inputs.captions.items()},
    **{(vectors.PREDICTIONS, language): captions for language, captions in inputs.predictions.items()},
  }


def check_adapters(folder: str, languages: Sequence[str], say: Callable[[str], None]) -> None:
  """Says which languages have no adapter in a folder ("": none is asked for); UsageError if none of them has one."""
  without = [language for language in languages if folder and not pathlib.Path(folder, language).is_dir()]
  lacking = f"{folder}: no adapter of {wording.first_few(without)}"
  if without and len(without) == len(languages):
    raise UsageError(f"{lacking}: give the folder that has a folder CODE for each language")
  if without:
    say(f"{lacking}, whose texts the tower embeds alone")


def _fingerprint(model: model_json.Model, made: Embedder, adapters: str, languages: Sequence[str]) -> str:
  """Returns a hash of the parameters and their configuration, and of the adapters of these languages."""
  digest = hashlib.sha256(model_json.as_text(model).encode())
  folders = [pathlib.Path(adapters, language) for language in languages] if adapters else []
  for params in (
    made.texts.sharded.params,
    *(read_all(folder) for folder in folders if folder.is_dir()),
  ):
    for path, leaf in sorted(stacking.flatten(params).items()):
      digest.update(f"{path} {leaf.shape}".encode())
      digest.update(np.ascontiguousarray(jax.device_get(leaf), np.float32).data)
  return f"sha256:{digest.hexdigest()[:16]}"


def _embed_parts(work_dir: pathlib.Path, inputs: Inputs, made: Embedder, adapters: str, say: Say) -> None:
  """Writes the parts of this process."""
  # Parts of about the same size stand together.
  parts = sorted(itertools.chain(*_outputs(inputs)), key=lambda part: (part.kind, part.start - part.stop))
  paths = list(inputs.images.values())

  def make_part(number: int) -> dict[str, Any]:
    part = parts[number]
    if part.kind == "pictures":
      embeddings, cut, unread = made.pictures(paths[part.start : part.stop], inputs.read), 0, 0
    else:
      embeddings, cut, unread = _embed_texts(part, inputs, made, adapters)
    return {"embeddings": embeddings, "cut": cut, "unread": unread}

  parts_lib.make([part.path(work_dir) for part in parts], make_part, "parts embedded", say)


def _embed_texts(part: _Part, inputs: Inputs, made: Embedder, adapters: str) -> tuple[np.ndarray, int, int]:
  """Returns the embeddings of a part, the number of texts that were cut, and of captions that are read as empty."""
  texts = made.texts_of(part.language, adapters)
  cut, unread, rows = texts.cut, texts.unread, slice(part.start, part.stop)
  try:
    if part.kind != "labels":
      captions = [f"{inputs.prefix}{text}" for text in _texts(inputs)[part.kind, part.language][rows]]
      words = inputs.tokenized.get(part.language, ()) if part.kind == vectors.CAPTIONS else ()
      embeddings = texts.all(captions, part.language, words[rows])
    else:
      names, prompts = (
        inputs.labels[part.language].names[rows],
        inputs.prompts.get(part.language, prompts_lib.ALONE),
      )
      embeddings = texts.ensemble(names, prompts, part.language)
  except UsageError as error:
    raise UsageError(f"{part.kind} of '{part.language}', from {part.start}: {error}") from None
  return embeddings, texts.cut - cut, texts.unread - unread


def _join_parts(out: pathlib.Path, work_dir: pathlib.Path, inputs: Inputs) -> tuple[int, int]:
  """Writes the outputs from their parts; returns the two numbers of `_embed_texts`, summed."""
  cut = unread = 0
  for parts in _outputs(inputs):
    kind, language = parts[0].kind, parts[0].language
    path = out / kind / f"{language}.npy" if language else out / PICTURES
    files.make_folder(path.parent)
    files.remove_incomplete(path.parent)
    with files.whole(path) as file:
      for part in parts:
        with np.load(part.path(work_dir)) as arrays:
          embeddings = arrays["embeddings"]
          cut += int(arrays["cut"])
          unread += int(arrays["unread"])
        if part.start == 0:
          shape = parts[-1].stop, *embeddings.shape[1:]
          about = {"descr": embeddings.dtype.str, "fortran_order": False, "shape": shape}
          np.lib.format.write_array_header_1_0(file, about)
        file.write(np.ascontiguousarray(embeddings).data)
    if texts := _texts(inputs).get((kind, language)):
      with files.whole(path.with_suffix(".jsonl")) as file:
        file.writelines(msgspec.json.encode({"caption": text}) + b"\n" for text in texts)
  if inputs.images:
    files.write_text(out / KEYS, "".join(f"{key}\n" for key in inputs.images))
  return cut, unread
