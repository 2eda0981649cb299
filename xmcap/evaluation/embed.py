"""Writes what a dual tower makes of pictures, captions and names of classes: what `xmcap score` ranks.

Pictures are embedded in parts and texts language by language. What is whole is not made again, so that a run that was
killed goes on and ends with the same bytes.
"""

import dataclasses
import functools
import hashlib
import json
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from etils import epath

from xmcap.data import images, records, text_input
from xmcap.data.corpora import plans
from xmcap.data.prefetch import Job, prefetch
from xmcap.data.vocabulary import Vocabulary, check_rows
from xmcap.errors import UsageError
from xmcap.evaluation import adapters as adapters_lib
from xmcap.evaluation import embedder, sharded_params
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
from xmcap.training import sharding
from xmcap.training.checkpoints import read, weights

NAME, VERSION = "embeddings", "1"
PICTURES, KEYS = "pictures.npy", "keys.txt"
_PART = 4_096  # pictures that are written at once
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
      data = read(path)
      if self.resize == "bilinear":
        return images.load(data, path, self.image_size)
      even = self.resize == "bicubic_crop_even"
      return images.load_exactly(data, path, self.image_size, even or self.resize == "bicubic_crop", even)

    batches = [paths[start : start + self._batch_size] for start in range(0, len(paths), self._batch_size)]
    jobs = (Job([functools.partial(load, path) for path in batch], np.stack) for batch in batches)
    found = []
    for batch, pixels in zip(batches, prefetch(jobs, files.available_cores(), depth=2), strict=True):
      whole = np.zeros((self._batch_size, *pixels.shape[1:]), np.uint8)
      whole[: len(batch)] = pixels
      with self.sharded.computing():
        arrays = sharding.put_batch({"image": whole}, self.sharded.mesh)
        found.append(np.asarray(self._embed(self.sharded.params, arrays))[: len(batch)])
    return np.concatenate(found)


def of_corpus(directory: str, split: str, languages: Sequence[str]) -> Inputs:
  """The pictures of a built corpus in the order of its records, and the first caption of each in these languages.

  Raises:
    UsageError: there is no such split, or a picture has no caption in a language.
  """
  source = records.RecordSource(directory, split)
  pictures, texts = {}, {code: [] for code in languages}
  for number, record in enumerate(source.iterate(range(len(source)), records.parse_columns)):
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

  Args:
    out: the folder; what it holds of the same inputs and model is kept.
    model_dir, step: as of `load`.
    adapters: a folder with a folder for each language that has an adapter; "": none.
    say: takes lines of progress.

  Raises:
    UsageError: there is no dual tower, the folder holds something else, or an input has an empty text.
    XmcapError: a picture cannot be read, or the disk is full or cannot be written.
  """
  out = pathlib.Path(out)
  _read_model(epath.Path(model_dir))
  step = _step(model_dir, step)

  def make(work_dir: pathlib.Path) -> dict[str, Any]:
    made, cut = load(model_dir, step), 0
    if inputs.pictures:
      _write_pictures(out, work_dir, inputs, made, say)
    for kind, texts in (("captions", inputs.captions), ("labels", inputs.labels)):
      for number, (code, held) in enumerate(texts.items(), 1):
        path = out / kind / f"{code}.npy"
        if path.exists():
          continue
        adapter = adapters_lib.find(adapters, code)
        say(f"{kind}: {code}, {number} of {len(texts)} languages" + (f", by {adapter}" if adapter else ""))
        embed_texts = made.adapted(adapter) if adapter else made.texts
        found = (
          embed_texts.all(held.texts, code)
          if isinstance(held, Captions)
          else embed_texts.ensemble(held.names, inputs.prompts.get(code, prompts_lib.ALONE), code)
        )
        cut += embed_texts.cut
        files.make_folder(path.parent)
        _save(path, found)
    if cut:
      say(f"{cut:,} texts are longer than {made.texts.text_input.max_length} pieces, and were cut")
    return {"cut": cut}

  options = {"model_dir": os.path.abspath(model_dir), "step": step, **inputs.described()}
  if adapters:
    options["adapters"] = os.path.abspath(adapters)
  if plans.carry_out(out, {"corpus": NAME, "version": VERSION, "options": options, "inputs": {}}, make)[1]:
    say(f"{out} holds these embeddings already")


def _read_model(folder: epath.Path) -> model_json.Model:
  if not (folder / model_json.NAME).exists():
    raise UsageError(
      f"{folder} is no model folder ({model_json.NAME} is absent): give the MODEL_DIR of a run"
    )
  model = model_json.read(folder / model_json.NAME)
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


def _write_pictures(
  out: pathlib.Path, work_dir: pathlib.Path, inputs: Inputs, made: DualEmbedder, say: Say
) -> None:
  paths = list(inputs.pictures.values())
  progress = Progress(say, "pictures embedded", len(paths))
  parts = []
  for start in range(0, len(paths), _PART):
    part = work_dir / f"pictures-{start // _PART:06d}.npy"
    if not part.exists():
      _save(part, made.pictures(paths[start : start + _PART], inputs.read))
    parts.append(np.load(part, mmap_mode="r"))
    progress(min(start + _PART, len(paths)))
  _save(out / PICTURES, np.concatenate(parts))
  files.write_text(out / KEYS, "".join(f"{key}\n" for key in inputs.pictures))


def _save(path: pathlib.Path, array: np.ndarray) -> None:
  with files.output(path) as file:
    np.save(file, array)


def _hash(value: Any) -> str:
  return hashlib.sha256(json.dumps(value, ensure_ascii=False).encode()).hexdigest()[:16]
