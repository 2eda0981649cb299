"""The folder of a trained model, and what can be done with it: evaluate, and caption pictures.

It holds `config.gin` (the resolved configuration), `vocabulary.model` and `checkpoints/`: all that is needed to
caption, wherever the folder is moved to.
"""

import json
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import gin
import jax
from etils import epath

from xmcap import configuration, languages, outputs, terminal
from xmcap import predictor as predictor_lib
from xmcap.data import checks, images, tasks
from xmcap.data import vocabulary as vocabulary_lib
from xmcap.errors import UsageError, XmcapError
from xmcap.training import saved

CONFIG = "config.gin"
VOCABULARY = "vocabulary.model"


def prepare_model_dir() -> None:
  """Writes `config.gin` and the vocabulary into the folder that the configuration names as MODEL_DIR.

  Raises:
    UsageError: the configuration has no MODEL_DIR or no MIXTURE, or the vocabulary does not fit the model.
    XmcapError: the folder cannot be written.
  """
  model_dir = epath.Path(configuration.macro("MODEL_DIR"))
  vocabulary = tasks.registration(configuration.macro("MIXTURE")).corpus.vocabulary()
  rows = text_rows(
    configuration.resolve(gin.get_bindings("train", resolve_references=False).get("objective"))
  )
  if rows is not None:
    checks.check_rows(vocabulary, rows)
  if jax.process_index():
    return  # one process writes
  try:
    model_dir.mkdir(parents=True, exist_ok=True)
    (model_dir / CONFIG).write_bytes(configuration.explain().encode())
    contents = vocabulary_lib.read_model(vocabulary.path)
    own = model_dir / VOCABULARY
    # The vocabulary may be this very file, which other processes are reading.
    if not own.exists() or own.read_bytes() != contents:
      own.write_bytes(contents)
  except OSError as error:
    raise XmcapError(f"{model_dir}: cannot be written ({error.strerror}): give a folder that can") from None


def text_rows(objective: Any) -> int | None:
  """Rows of the embedding and the logits of what an objective trains; None where that has no text."""
  t5 = getattr(getattr(objective, "module", None), "t5", None)
  return None if t5 is None else t5.vocab_size


def parse(
  model_dir: str, files: Sequence[str] = (), overrides: Sequence[str] = (), search_paths: Sequence[str] = ()
) -> None:
  """Parses the configuration of a model folder, with gin files and overrides on top, and its own vocabulary.

  Raises:
    UsageError: the folder is no model folder, or see `configuration.parse`.
  """
  config = epath.Path(model_dir) / CONFIG
  if not config.is_file():
    raise UsageError(
      f"{model_dir} is no model folder ({CONFIG} is absent): give the MODEL_DIR of a training run"
    )
  own = {"MODEL_DIR": model_dir}
  vocabulary = epath.Path(model_dir) / VOCABULARY
  if vocabulary.is_file():
    own["VOCABULARY"] = os.fspath(vocabulary)
  configuration.parse([str(config.resolve()), *files], overrides, search_paths, macros=own)


def load_params(model_dir: str, step: int | None = None) -> Any:
  """The captioner's parameters: of `step`, or the best by the run's metric if it kept one, else the newest."""
  if step is None:
    try:
      step = saved.best_step(model_dir)
    except UsageError:
      step = None  # the run kept none by a metric
  return saved.load_params(model_dir, step)


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
  model_dir: str, files: Sequence[str], codes: Sequence[str], as_json: bool = False, step: int | None = None
) -> None:
  """`xmcap caption`: prints the captions of picture files.

  Args:
    model_dir: folder of a training run.
    files: JPEG or PNG files.
    codes: languages.
    as_json: prints predictions as JSONL, the file's name as the key.
    step: of the checkpoint; None: the best by the run's metric if it kept one, else the newest.

  Raises:
    UsageError: no model there, or a file that is not there.
    XmcapError: a file that is no picture, or a checkpoint that does not fit.
  """
  # Pictures first: they are checked in a moment, and loading a model takes seconds.
  contents = [(file, _read_file(file)) for file in files]
  parse(model_dir)
  predictor = predictor_lib.Predictor(configuration.macro("MIXTURE"))
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


def _read_file(file: str) -> bytes:
  try:
    return pathlib.Path(file).read_bytes()
  except OSError as error:
    raise UsageError(f"{file}: cannot be read ({error.strerror}): name a JPEG or PNG file") from None
