"""Writes what a dual tower makes of pictures, captions and names of classes: what `xmcap score` ranks.

Each output is embedded in parts, and the processes of a run take turns in taking one. A part that is whole is not made
again, so that a run that was killed goes on and ends with the same bytes.
"""

import dataclasses
import hashlib
import json
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from etils import epath

from xmcap.data import records, text_input
from xmcap.data.columns import parse_columns
from xmcap.data.corpora import plans
from xmcap.data.vocabulary import Vocabulary, check_rows
from xmcap.errors import UsageError
from xmcap.evaluation import adapters as adapters_lib
from xmcap.evaluation import embedder, picture_features, sharded_params
from xmcap.evaluation.predictor import VOCABULARY
from xmcap.models import model_json
from xmcap.models.dual import DualConfig
from xmcap.models.t5 import T5Config
from xmcap.models.text_tower import TextConfig
from xmcap.models.vit import ViTConfig
from xmcap.progress import Progress, Say
from xmcap.scoring import prompts as prompts_lib
from xmcap.scoring.retrieval import Captions
from xmcap.scoring.zero_shot import Labels
from xmcap.storage import files
from xmcap.training.checkpoints import read, weights
from xmcap.training.hosts import join as hosts

NAME, VERSION = "embeddings", "1"
PICTURES, KEYS = "pictures.npy", "keys.txt"
_PART = {"pictures": 4_096, "captions": 16_384, "labels": 1_024}  # rows that are embedded and written at once
_LONGEST = 64  # pieces of a text, for towers that read any length


@dataclasses.dataclass(frozen=True)
class Inputs:
  """What is to be embedded.

  Attributes:
    pictures: key -> file, or what `read` takes.
    captions: language code -> captions, or none.
    labels: language code -> classes, or none.
    prompts: language code -> prompts; a language without them has its names alone.
    read: what `pictures` has of a key -> the bytes of the picture.
  """

  pictures: Mapping[str, str] = dataclasses.field(default_factory=dict)
  captions: Mapping[str, Captions] = dataclasses.field(default_factory=dict)
  labels: Mapping[str, Labels] = dataclasses.field(default_factory=dict)
  prompts: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
  read: Callable[[str], bytes] = lambda path: epath.Path(path).read_bytes()

  def described(self) -> dict[str, Any]:
    """What tells these inputs from others, by number and hash."""
    texts = {
      "pictures": list(self.pictures),
      "captions": {code: held.texts for code, held in self.captions.items()},
      "labels": {code: held.names for code, held in self.labels.items()},
      "prompts": dict(self.prompts),
    }
    return {name: [len(held), _hash(held)] for name, held in texts.items()}


class DualEmbedder:
  """A dual tower and the devices that it computes on. `load` makes one."""

  def __init__(
    self, model: model_json.Model, params: Any, texts: text_input.TextInput, batch_size: int = 256
  ):
    vit, dual = model.config("vit"), model.config("dual")
    assert isinstance(vit, ViTConfig) and isinstance(dual, DualConfig)
    self.module: Any = embedder.tower(vit, _text_config(model), dual)
    self.image_size, self.resize = vit.image_size, dual.resize
    self.sharded = sharded_params.for_evaluation(params, jax.local_devices())
    self.texts = embedder.TextEmbedder(self.module, self.sharded, texts, batch_size)
    self._batch_size = self.texts.batch_size
    self._embed = jax.jit(
      lambda params, batch: self.module.apply({"params": params}, batch["image"], method="embed_images")
    )

  def adapted(self, adapter: str) -> embedder.TextEmbedder:
    """The embedder of texts with an adapter; the tower itself stays as it is."""
    return adapters_lib.adapted(self.module, self.sharded, self.texts.text_input, adapter, self._batch_size)

  def pictures(self, paths: Sequence[str], read: Callable[[str], bytes]) -> np.ndarray:
    """Returns the embeddings of pictures, float32 [N, E]; XmcapError names one that cannot be decoded."""

    def load(path: str) -> np.ndarray:
      return picture_features.load_pixels(read(path), path, self.image_size, self.resize)

    found = picture_features.in_batches(paths, load, self._embed, self.sharded, self._batch_size)
    return np.concatenate(list(found))


def of_corpus(directory: str, split: str, languages: Sequence[str]) -> Inputs:
  """The pictures of a built corpus in the order of its records, and the first caption of each in these languages.

  Raises:
    UsageError: there is no such split, or a picture has no caption in a language.
  """
  source = records.RecordSource(directory, split)
  pictures, texts = {}, {code: [] for code in languages}
  for number, record in enumerate(source.iterate(range(len(source)), parse_columns)):
    pictures[record.key] = str(number)
    of_record = [code.decode() for code in record.languages]
    for code, found in texts.items():
      if code not in of_record:
        raise UsageError(f"{directory}, split '{split}': picture '{record.key}' has no caption in '{code}'")
      found.append(record.texts[of_record.index(code)].decode())
  places = np.arange(len(pictures))
  captions = {code: Captions(places, tuple(found)) for code, found in texts.items()}
  return Inputs(pictures, captions, read=lambda number: source[int(number)].image)


def load(model_dir: str, step: int | None = None) -> DualEmbedder:
  """Loads a dual tower: from a run's folder, of a step or the best or newest; or from what `xmcap convert` wrote.

  Raises:
    UsageError: the folder holds another model, or none, or lacks the files of its tokenizer.
  """
  folder = epath.Path(model_dir)
  model = _read_model(folder)
  if _is_converted(model_dir):
    params = weights.read_all(model_dir)
    params.setdefault("logit_bias", np.zeros((), np.float32))  # CLIP has none
  else:
    params = read.load_params(model_dir, _step(model_dir, step))
  return DualEmbedder(model, params, _tokenizer(folder, _text_config(model)))


def _text_config(model: model_json.Model) -> T5Config | TextConfig:
  config = model.config("t5" if model.text is None else "text")
  assert isinstance(config, T5Config | TextConfig)
  return config


def _tokenizer(folder: epath.Path, config: T5Config | TextConfig) -> text_input.TextInput:
  most = _LONGEST if isinstance(config, T5Config) else config.max_length
  if (folder / VOCABULARY).exists():
    vocabulary = Vocabulary(os.fspath(folder / VOCABULARY))
    check_rows(vocabulary, config.vocab_size)
    return text_input.OwnPieces(vocabulary, most, fixed=getattr(config, "pool", "") == "last")
  if isinstance(config, TextConfig) and config.pool == "last" and (folder / text_input.SIGLIP).exists():
    return text_input.SiglipPieces(pathlib.Path(folder / text_input.SIGLIP), most)
  if isinstance(config, TextConfig) and (folder / text_input.TOKENIZER).exists():
    path = pathlib.Path(folder / text_input.TOKENIZER)
    if config.positions == "sinusoidal":
      return text_input.NllbPieces(path, most, config.pad_id)
    return text_input.TokenizerJson(path, most, config.pad_id, siglip=config.pool == "last")
  known = f"{VOCABULARY}, {text_input.TOKENIZER}, {text_input.SIGLIP} (SigLIP's)"
  raise UsageError(f"{folder}: no tokenizer of its text tower: put one of these files there: {known}")


def write(
  out: str | os.PathLike,
  inputs: Inputs,
  model_dir: str,
  step: int | None = None,
  adapters: str = "",
  say: Say = lambda line: None,
) -> None:
  """Writes `pictures.npy`, `keys.txt`, `captions/CODE.npy` and `labels/CODE.npy`, of what there is, into a folder.

  All processes of a run must call it, with the same inputs and a folder that all of them see.

  Args:
    out: the folder; what it holds of the same inputs and model is kept.
    model_dir, step: as of `load`.
    adapters: a folder with a folder for each language that has an adapter; "": none.
    say: takes lines of progress.

  Raises:
    UsageError: there is no dual tower, the folder holds something else, an input has an empty text, or the processes
      have different inputs.
    XmcapError: a picture cannot be read, or the disk is full or cannot be written.
  """
  out = pathlib.Path(out)
  _read_model(epath.Path(model_dir))
  step = _step(model_dir, step)
  options = {"model_dir": os.path.abspath(model_dir), "step": step, **inputs.described()}
  if adapters:
    options["adapters"] = os.path.abspath(adapters)
  if len(set(hosts.agree("inputs to embed", json.dumps(options)))) > 1:
    raise UsageError("the processes have different inputs: give each the same options and files")

  def embed_parts(work_dir: pathlib.Path) -> int:
    if hosts.current():
      hosts.check_folder(epath.Path(work_dir))
    made = load(model_dir, step)
    _embed_parts(work_dir, inputs, made, adapters, say)
    return made.texts.text_input.max_length

  def make(work_dir: pathlib.Path) -> dict[str, Any]:
    hosts.agree("embeddings", "begun")
    most = embed_parts(work_dir)
    cut = _join_parts(out, work_dir, inputs)
    if cut:
      say(f"texts of more than {most} pieces, which were cut: {cut:,}")
    return {"cut": cut}

  # Process 0 finds out whether anything is left to embed, and joins the parts.
  if jax.process_index() == 0:
    plan = {"corpus": NAME, "version": VERSION, "options": options, "inputs": {}}
    if plans.carry_out(out, plan, make)[1]:
      hosts.agree("embeddings", "there")
      say(f"{out} holds these embeddings already")
  elif hosts.agree("embeddings", "")[0] == "begun":
    embed_parts(out / plans.WORK)


def _read_model(folder: epath.Path) -> model_json.Model:
  model = picture_features.read_model(folder)
  if model.dual is None or model.vit is None or (model.t5 is None and model.text is None):
    raise UsageError(
      f"{folder} holds no dual tower: give a run of runs/contrastive.gin, or what `xmcap convert --part=dual` wrote"
    )
  return model


def _is_converted(model_dir: str) -> bool:
  return (epath.Path(model_dir) / weights.PARAMS).exists()


def _step(model_dir: str, step: int | None) -> int | None:
  if step is not None or _is_converted(model_dir):
    return step
  best = read.best_step(model_dir)
  steps = read.steps_in(read.checkpoints_dir(model_dir))
  if best is None and not steps:
    raise UsageError(f"{model_dir} holds no finished checkpoint: give a run that has saved one")
  return steps[-1] if best is None else best


@dataclasses.dataclass(frozen=True)
class _Part:
  """Rows `start` to `stop` of `pictures.npy`, or of the captions or labels of a language."""

  kind: str
  code: str
  start: int
  stop: int

  def path(self, work_dir: pathlib.Path) -> pathlib.Path:
    return work_dir / f"{self.kind}-{self.code}-{self.start}-{self.stop}.npz"


def _parts(inputs: Inputs) -> list[_Part]:
  counts = {
    ("pictures", ""): len(inputs.pictures),
    **{("captions", code): len(held.texts) for code, held in inputs.captions.items()},
    **{("labels", code): len(held.names) for code, held in inputs.labels.items()},
  }
  return [
    _Part(kind, code, start, min(start + _PART[kind], count))
    for (kind, code), count in counts.items()
    for start in range(0, count, _PART[kind])
  ]


def _embed_parts(work_dir: pathlib.Path, inputs: Inputs, made: DualEmbedder, adapters: str, say: Say) -> None:
  """Writes the parts of this process, in rounds of a part each."""
  # Parts of about the same size stand together: the processes wait for each other after each round.
  parts = sorted(_parts(inputs), key=lambda part: (part.kind, part.start - part.stop))
  own, count = parts[jax.process_index() :: jax.process_count()], jax.process_count()
  progress = Progress(say, "parts embedded", len(own))
  paths = list(inputs.pictures.values())
  for number in range(-(-len(parts) // count)):
    if number < len(own) and not (path := own[number].path(work_dir)).exists():
      part = own[number]
      if part.kind == "pictures":
        found, cut = made.pictures(paths[part.start : part.stop], inputs.read), 0
      else:
        found, cut = _embed_texts(part, inputs, made, adapters)
      with files.whole(path) as file:
        np.savez(file, embeddings=found, cut=cut)
    hosts.barrier("parts embedded")
    progress(min(number + 1, len(own)))


def _embed_texts(part: _Part, inputs: Inputs, made: DualEmbedder, adapters: str) -> tuple[np.ndarray, int]:
  """Returns the embeddings of a part, and how many of its texts were cut."""
  adapter = adapters_lib.find(adapters, part.code)
  texts = made.adapted(adapter) if adapter else made.texts
  before, rows = texts.cut, slice(part.start, part.stop)
  try:
    if part.kind == "captions":
      found = texts.all(inputs.captions[part.code].texts[rows], part.code)
    else:
      names, prompts = inputs.labels[part.code].names[rows], inputs.prompts.get(part.code, prompts_lib.ALONE)
      found = texts.ensemble(names, prompts, part.code)
  except UsageError as error:
    raise UsageError(f"{part.kind} of '{part.code}', from {part.start}: {error}") from None
  return found, texts.cut - before


def _join_parts(out: pathlib.Path, work_dir: pathlib.Path, inputs: Inputs) -> int:
  """Writes the outputs from their parts; returns how many texts were cut."""
  outputs: dict[tuple[str, str], list[_Part]] = {}
  for part in _parts(inputs):
    outputs.setdefault((part.kind, part.code), []).append(part)
  cut = 0
  for (kind, code), parts in outputs.items():
    path = out / kind / f"{code}.npy" if code else out / PICTURES
    files.make_folder(path.parent)
    files.remove_incomplete(path.parent)
    found = []
    for part in parts:
      with np.load(part.path(work_dir)) as held:
        found.append(held["embeddings"])
        cut += int(held["cut"])
    files.write_array(path, np.concatenate(found))
  if inputs.pictures:
    files.write_text(out / KEYS, "".join(f"{key}\n" for key in inputs.pictures))
  return cut


def _hash(value: Any) -> str:
  return hashlib.sha256(json.dumps(value, ensure_ascii=False).encode()).hexdigest()[:16]
