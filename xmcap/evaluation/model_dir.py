"""The folder of a trained model, and what can be done with it: evaluate, and caption pictures.

It holds `model.json` (the model's sizes), `vocabulary.model` and `checkpoints/`: all that is needed to caption,
wherever the folder is moved to. Besides, `config.gin` is the resolved configuration of the run, for people and for
those who name it themselves: gin can run code, so nothing of a folder is parsed by gin because it lies there.
"""

import functools
import json
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import gin
import jax
from absl import logging
from etils import epath

from xmcap import configuration, languages, terminal
from xmcap.data import images, tasks
from xmcap.data import vocabulary as vocabulary_lib
from xmcap.data.checking import preflight as checks
from xmcap.errors import UsageError, XmcapError
from xmcap.evaluation import predictor as predictor_lib
from xmcap.models import model_json
from xmcap.storage import outputs
from xmcap.training.checkpoints import kept_config
from xmcap.training.checkpoints import read as saved

CONFIG = kept_config.NEWEST
VOCABULARY = "vocabulary.model"


def check_model_dir() -> None:
  """Checks what `write_model_dir` will write.

  Raises:
    UsageError: the configuration has no MODEL_DIR or no MIXTURE, or the vocabulary does not fit the model.
  """
  configuration.macro("MODEL_DIR")
  vocabulary = tasks.registration(configuration.macro("MIXTURE")).corpus.vocabulary()
  rows = text_rows(_objective())
  if rows is not None:
    checks.check_rows(vocabulary, rows)


def write_model_dir(step: int) -> None:
  """Writes `config.gin`, `model.json` and the vocabulary into the folder that the configuration names as MODEL_DIR.

  Args:
    step: that the run goes on from; a run that is refused leaves the folder as it is.

  Raises:
    XmcapError: the folder cannot be written.
  """
  if jax.process_index():
    return  # one process writes
  model_dir = epath.Path(configuration.macro("MODEL_DIR"))
  vocabulary = tasks.registration(configuration.macro("MIXTURE")).corpus.vocabulary()
  try:
    model_dir.mkdir(parents=True, exist_ok=True)
    kept_config.keep(model_dir, step, configuration.explain())
    kept_config.write(model_dir / model_json.NAME, model_json.as_text(_model(_objective())).encode())
    contents = vocabulary_lib.read_model(vocabulary.path)
    own = model_dir / VOCABULARY
    # The vocabulary may be this very file, which other processes are reading.
    if not own.exists() or own.read_bytes() != contents:
      kept_config.write(own, contents)
  except OSError as error:
    raise XmcapError(f"{model_dir}: cannot be written ({error.strerror}): give a folder that can") from None


def _objective() -> Any:
  return configuration.resolve(gin.get_bindings("train", resolve_references=False).get("objective"))


def text_rows(objective: Any) -> int | None:
  """Rows of the embedding and the logits of what an objective trains; None where that has no text."""
  t5 = getattr(getattr(objective, "module", None), "t5", None)
  return None if t5 is None else t5.vocab_size


def _model(objective: Any) -> model_json.Model:
  """What `model.json` says of a run: the model that it trains, and how gin says that captions are made."""
  module = getattr(objective, "module", None)
  parts = {
    part: model_json.of_config(config)
    for part in ("vit", "t5")
    if (config := getattr(module, part, None)) is not None
  }
  # A run that decodes nothing may not even have imported Predictor.
  bound = gin.get_bindings("xmcap.evaluation.predictor.Predictor")
  search = model_json.of_search(bound["search"]) if "search" in bound else None
  if "search" in bound and search is None:
    logging.warning("Predictor.search is no search of xmcap: %s does not say it", model_json.NAME)
  decoding = {name: bound[name] for name in ("max_length", "cache_dtype") if name in bound}
  return model_json.Model(**parts, mixture=configuration.macro("MIXTURE"), decoding=decoding, search=search)


def parse(
  model_dir: str, files: Sequence[str] = (), overrides: Sequence[str] = (), search_paths: Sequence[str] = ()
) -> None:
  """Binds what a model folder's `model.json` says and its vocabulary, with gin files and overrides on top.

  Args:
    model_dir: the folder.
    files, overrides, search_paths: see `configuration.parse`; the user named them. Where the folder's own `config.gin`
      is among them, it may be without a `model.json`.

  Raises:
    UsageError: the folder is no model folder, or see `configuration.parse` and `model_json.read`.
  """
  folder = epath.Path(model_dir)
  model = None
  if (folder / model_json.NAME).exists():
    model = model_json.read(folder / model_json.NAME)
  elif not any(_same(file, folder / CONFIG) for file in files if not callable(file)):
    raise no_model_json(model_dir)
  own = {"MODEL_DIR": model_dir, "VOCABULARY": os.fspath(folder / VOCABULARY)}
  configuration.parse(files, overrides, search_paths, macros=own, bind=functools.partial(_bind, model))


def bind(model: model_json.Model) -> None:
  """Binds in gin what a model says, as a gin file would: files and overrides that follow win."""
  for config, given in (("ViTConfig", model.vit), ("T5Config", model.t5), ("Predictor", model.decoding)):
    for name, value in (given or {}).items():
      if name == "image_size":
        # The macro of the model files, from which the pictures take their size too.
        gin.bind_parameter(("IMAGE_SIZE", "gin.macro", "value"), value)
        gin.parse_config("ViTConfig.image_size = %IMAGE_SIZE")
      else:
        gin.bind_parameter(f"{config}.{name}", value)
  if model.mixture:
    gin.bind_parameter(("MIXTURE", "gin.macro", "value"), model.mixture)
  if model.search:
    search, given = model.search
    for name, value in given.items():
      gin.bind_parameter(f"{search}.{name}", value)
    gin.parse_config(f"Predictor.search = @{search}()")


def _bind(model: model_json.Model | None) -> None:
  if model is not None:
    bind(model)
  gin.parse_config("Predictor.vocabulary = %VOCABULARY")


def _same(file: str, other: epath.Path) -> bool:
  try:
    return os.path.samefile(file, other)
  except OSError:
    return False


def no_model_json(model_dir: str | os.PathLike) -> UsageError:
  """What to say of a folder that has none."""
  config = epath.Path(model_dir) / CONFIG
  if not config.exists():
    return UsageError(
      f"{model_dir} is no model folder ({model_json.NAME} is absent): give the MODEL_DIR of a training run"
    )
  return UsageError(
    f"{model_dir}: no {model_json.NAME}; an earlier xmcap wrote this folder. The command that trained it, given again,"
    f" writes one; if you trust who wrote {CONFIG}, which can run code, eval and caption take --gin_file={config}"
  )


def load_params(model_dir: str, step: int | None = None) -> Any:
  """The captioner's parameters: of `step`, or the best by the run's metric if it kept one, else the newest."""
  return saved.load_params(model_dir, saved.best_step(model_dir) if step is None else step)


@gin.configurable
def evaluate(
  model_dir: str = gin.REQUIRED, evaluators: Sequence[Any] = gin.REQUIRED, step: int | None = None
) -> None:
  """`xmcap eval`: runs evaluators on a trained model; each writes what it finds; the means are printed.

  Args:
    model_dir: folder of a training run.
    evaluators: what to run, in this order.
    step: see `load_params`.
  """
  first = jax.process_index() == 0
  places = [("out_dir", evaluator.out_dir, True) for evaluator in evaluators if hasattr(evaluator, "out_dir")]
  with outputs.held_all([place for place in places if place[1] and first], "xmcap eval"):
    params = load_params(model_dir, step)
    for evaluator in evaluators:
      for language, name, value in evaluator.run(params, step):
        if language in ("", "mean") and first:
          print(f"{name}  {value:.4f}")


def caption_files(
  model_dir: str,
  contents: Sequence[tuple[str, bytes]],
  codes: Sequence[str],
  as_json: bool = False,
  step: int | None = None,
) -> None:
  """`xmcap caption`: prints the captions of picture files, by the `Predictor` that gin is configured for.

  Args:
    model_dir: folder of a training run.
    contents: from `read_pictures`.
    codes: languages.
    as_json: prints predictions as JSONL, the file's name as the key.
    step: of the checkpoint; None: the best by the run's metric if it kept one, else the newest.

  Raises:
    UsageError: no model there.
    XmcapError: a file that is no picture, or a checkpoint that does not fit.
  """
  files = [file for file, _ in contents]
  predictor = predictor_lib.Predictor()
  pictures = {file: images.load(data, file, predictor.image_size) for file, data in contents}
  params = load_params(model_dir, step)
  for file, captions in predictor(params, files, pictures.__getitem__, codes):
    if not as_json:
      print(terminal.shown(file, limit=None))
    for code, caption in captions.items():
      if as_json:
        print(json.dumps({"image/key": file, "language": code, "caption": caption}, ensure_ascii=False))
      else:
        print(f"  {code:<4} {languages.get(code).english_name:<14} {terminal.shown(caption, limit=None)}")


def read_pictures(files: Sequence[str]) -> list[tuple[str, bytes]]:
  """The contents of JPEG or PNG files, by name; UsageError where one cannot be read."""
  contents = []
  for file in files:
    try:
      contents.append((file, pathlib.Path(file).read_bytes()))
    except OSError as error:
      raise UsageError(f"{file}: cannot be read ({error.strerror}): name a JPEG or PNG file") from None
  return contents
