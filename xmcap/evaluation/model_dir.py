"""The folder of a trained model: writing it, evaluating it, and captioning images with it.

It holds `model.json` (the model's sizes), `vocabulary.model`, `checkpoints/` and, of a Word2VisualVec, `words/`, of a
tagger, `labels/`. That is enough to caption, embed or tag, and it can be moved. `config.gin` beside them is the
resolved configuration of the run, which xmcap does not parse unless the user names it: it says what a run writes, and
may import.
"""

import functools
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import gin
import jax
from absl import logging

from xmcap import configuration, gin_files, languages, terminal
from xmcap.data import registry
from xmcap.data import vocabulary as vocabulary_lib
from xmcap.data.stream import CaptionStream
from xmcap.data.vocabulary import VOCABULARY
from xmcap.errors import UsageError, XmcapError
from xmcap.evaluation import evaluate as evaluate_lib
from xmcap.evaluation import familiarity, image_features, image_files
from xmcap.evaluation.caption_evaluator import is_first
from xmcap.evaluation.predictor import Predictor
from xmcap.files import files
from xmcap.files.bucket_paths import epath
from xmcap.models import model_json, parts
from xmcap.training.checkpoints import kept_config, read, start, versions
from xmcap.training.checkpoints.weights import PARAMS
from xmcap.training.reporting import metrics_file

CONFIG = kept_config.NEWEST


def check_model_dir() -> None:
  """Checks, before the run begins, that `write_model_dir` will succeed.

  Raises UsageError if the configuration has no MODEL_DIR or no MIXTURE, the vocabulary does not fit the model or the
  weights that it starts from, or the run would decode other stabilizers than it learns.
  """
  configuration.macro("MODEL_DIR")
  vocabulary = vocabulary_of_run()
  rows = text_rows(_objective())
  if rows is not None and vocabulary is not None:
    vocabulary_lib.check_rows(vocabulary, rows)
    pretrained = gin.get_bindings("train", resolve_references=False).get("pretrained")
    check_pretrained(vocabulary, configuration.resolve(pretrained) or ())
  learnt, decoded = _stabilizer(), _stabilizer("xmcap.evaluation.predictor.Predictor")
  differ = [name for name in ("form", "language") if (learnt or {}).get(name) != (decoded or {}).get(name)]
  if differ and getattr(getattr(_objective(), "module", None), "t5", None) is not None:
    raise UsageError(
      "CaptionStream.stabilizer and Predictor.stabilizer differ: give both the same, as runs/plugs.gin does, or neither"
    )


def vocabulary_of_run() -> vocabulary_lib.Vocabulary | None:
  """The vocabulary of gin's MIXTURE; None if that is '': in a run over text pairs the tower has its own tokenizer."""
  mixture = configuration.macro("MIXTURE")
  return registry.registration(mixture).vocabulary() if mixture else None


def check_pretrained(vocabulary: vocabulary_lib.Vocabulary, pretrained: start.Pretrained) -> None:
  """Raises UsageError if a run whose token embedding is loaded had another vocabulary: its rows mean other pieces."""
  for folder, prefix in start.folders_and_prefixes(pretrained):
    if prefix and not prefix.startswith("token_embedder"):
      continue
    # Of a run, or of one of its checkpoints.
    for place in (epath.Path(folder), epath.Path(folder).parent.parent):
      own = place / VOCABULARY
      if (place / model_json.NAME).exists() and own.exists():
        if vocabulary_lib.Vocabulary(os.fspath(own)).sha256 != vocabulary.sha256:
          raise UsageError(
            f"{folder} was trained with another vocabulary than {vocabulary.path}: give --gin.VOCABULARY={own} or, if"
            f" that lacks a language, take the ViT alone: --gin.PRETRAINED=\"[('{folder}', 'vit')]\""
          )
        break


def write_model_dir(step: int) -> None:
  """Writes `config.gin`, `model.json`, `versions.json` and the vocabulary into MODEL_DIR for a run from `step` on."""
  if jax.process_index():
    return
  model_dir = epath.Path(configuration.macro("MODEL_DIR"))
  vocabulary = vocabulary_of_run()
  objective = _objective()
  try:
    model_dir.mkdir(parents=True, exist_ok=True)
    kept_config.keep(model_dir, step, configuration.explain())
    versions.keep(model_dir, step)
    files.write_anywhere(model_dir / model_json.NAME, model_json.as_text(_model(objective)).encode())
    if write_files := getattr(objective, "write_files", None):
      write_files(model_dir)
    if vocabulary is None:
      return
    contents = vocabulary_lib.read_model(vocabulary.path)
    own = model_dir / VOCABULARY
    # The run's vocabulary may be this very file, which other processes are reading.
    if not own.exists() or own.read_bytes() != contents:
      files.write_anywhere(own, contents)
  except OSError as error:
    raise XmcapError(f"{model_dir}: cannot be written ({error.strerror}): give a writable folder") from None


def _objective() -> Any:
  return configuration.resolve(gin.get_bindings("train", resolve_references=False).get("objective"))


def text_rows(objective: Any) -> int | None:
  """Rows of the token embedding in an objective's model; None if it has no text model."""
  module = getattr(objective, "module", None)
  text = getattr(module, "t5", None) or getattr(module, "text", None)
  return None if text is None else text.vocab_size


def _model(objective: Any) -> model_json.Model:
  """The model that a run trains, with its decoding as configured in gin."""
  configs = parts.of_module(getattr(objective, "module", None))
  fields = {name: model_json.of_config(config) for name, config in configs.items()}
  of_captions = {"tags": _tags_in_prompt(), "stabilizer": _stabilizer()}
  fields |= {name: setting for name, setting in of_captions.items() if setting is not None}
  # By its full name, because a run that decodes nothing may not have imported Predictor.
  bound = gin.get_bindings("xmcap.evaluation.predictor.Predictor")
  search = model_json.of_search(bound["search"]) if "search" in bound else None
  if "search" in bound and search is None:
    logging.warning("Predictor.search is not a search of xmcap, so %s omits it", model_json.NAME)
  decoding = {name: bound[name] for name in ("max_length", "cache_dtype") if name in bound}
  mixture = configuration.macro("MIXTURE")
  chosen = gin.get_bindings("xmcap.data.stream.CaptionStream").get("languages")
  chosen = getattr(objective, "languages", chosen)
  trained = tuple(chosen or (registry.registration(mixture).rates if mixture else ()))
  return model_json.Model(fields, mixture, decoding, search, trained)


def _tags_in_prompt() -> dict[str, Any] | None:
  """The fields of `TagsInPrompt` of the captions that the run learns; None if their prompts have no tags."""
  bound = gin.get_bindings("xmcap.data.stream.CaptionStream")
  tags = bound.get("prompt_tags")
  if tags is None:
    return None
  length = bound.get("prompt_length", CaptionStream.prompt_length)
  return model_json.of_config(model_json.TagsInPrompt(length, tags.language, tags.most))


def _stabilizer(of: str = "xmcap.data.stream.CaptionStream") -> dict[str, Any] | None:
  """The fields of the `Stabilizer` of the captions that the run learns, or decodes; None if they have none."""
  bound = gin.get_bindings(of).get("stabilizer")
  return None if bound is None else model_json.of_config(bound)


def parse(
  model_dir: str, files: Sequence[str | Callable[[], None]] = (), overrides: Sequence[str] = (),
  search: gin_files.Search = gin_files.HERE,
) -> None:  # fmt: skip
  """Binds a model folder's `model.json` and vocabulary in gin, then gin files and overrides.

  The folder needs no `model.json` if its own `config.gin` is among the files. The other arguments and the errors are
  those of `configuration.parse`.
  """
  folder = epath.Path(model_dir)
  has_model = (folder / model_json.NAME).exists()
  if not has_model and not any(_is_same_file(file, folder / CONFIG) for file in files if not callable(file)):
    raise UsageError(
      f"{model_dir}: not a model folder ({model_json.NAME} is missing): give the MODEL_DIR of a training run. If an"
      f" earlier xmcap wrote it, and you trust the author of its {CONFIG}, which can run code, add"
      f" --gin_file={folder / CONFIG}"
    )

  model = _read_model(model_dir)

  def bind_model() -> None:
    bind(model)
    gin.parse_config("Predictor.vocabulary = %VOCABULARY")

  def bind_macros() -> None:
    _bind_macro("MODEL_DIR", model_dir)
    if "text" not in model.parts or (folder / VOCABULARY).exists():
      _bind_macro("VOCABULARY", os.fspath(folder / VOCABULARY))
    elif not configuration.has_macro("VOCABULARY"):
      _bind_macro(
        "VOCABULARY", ""
      )  # a converted text tower has its own tokenizer, and the corpus its vocabulary

  configuration.parse([bind_model, *files, bind_macros], overrides, search)


def bind(model: model_json.Model) -> None:
  """Binds a model's configuration in gin as a gin file would, so that later files and overrides win.

  Earlier files win over its mixture and its decoding, because another run may train the model on other data.
  """
  for config, settings in (
    *((part.config_name, model.parts.get(name)) for name, part in parts.PARTS.items() if part.gin),
    ("Predictor", _unbound("Predictor", model.decoding)),
  ):
    for name, value in (settings or {}).items():
      if name == "image_size":
        # As in the gin files of models: the streams use this macro too.
        _bind_macro("IMAGE_SIZE", value)
        gin.parse_config(f"{config}.image_size = %IMAGE_SIZE")
      else:
        gin.bind_parameter(f"{config}.{name}", value)
  tags = model.config("tags")
  if isinstance(tags, model_json.TagsInPrompt):
    gin.bind_parameter("TagPrompts.language", tags.language)
    gin.bind_parameter("TagPrompts.most", tags.most)
    gin.bind_parameter("Predictor.prompt_length", tags.prompt_length)
  if "stabilizer" in model.parts and _unbound("Predictor", {"stabilizer": None}):
    gin.parse_config("Predictor.stabilizer = @Stabilizer()")
  if model.mixture and not configuration.has_macro("MIXTURE"):
    _bind_macro("MIXTURE", model.mixture)
  if model.search and _unbound("Predictor", {"search": model.search}):
    search, settings = model.search
    for name, value in settings.items():
      gin.bind_parameter(f"{search}.{name}", value)
    gin.parse_config(f"Predictor.search = @{search}()")


def _unbound(configurable: str, settings: Mapping[str, Any]) -> dict[str, Any]:
  """The arguments that nothing has bound so far."""
  try:
    bound = gin.get_bindings(configurable, resolve_references=False)
  except ValueError:  # not imported yet, so no file has bound it
    bound = {}
  return {name: value for name, value in settings.items() if name not in bound}


def _bind_macro(name: str, value: Any) -> None:
  gin.bind_parameter((name, "gin.macro", "value"), value)


def _is_same_file(file: str, other: epath.Path) -> bool:
  try:
    return os.path.samefile(file, other)
  except OSError:
    return False


def load_params(model_dir: str, step: int | None = None, weights: str | None = None) -> Any:
  """The parameters of a step; by default the best by the run's metric if there is one, else the newest.

  `weights` is as in `read.chosen_weights`. Without a step, the folder may be one of converted weights.
  """
  if step is None and (epath.Path(model_dir) / PARAMS).exists():
    return image_features.read_params(model_dir, weights=weights)
  return read.load_params(model_dir, read.best_step(model_dir) if step is None else step, weights)


def _evaluate(model_dir: str, evaluators: Sequence[Any], step: int | None, weights: str | None) -> None:
  """Runs evaluators on the parameters of a run; the last line says how to serve the model, if it is a captioner."""
  first = is_first()
  params, model = load_params(model_dir, step, weights), _read_model(model_dir)
  for evaluator in evaluators:
    predictor = getattr(evaluator, "predictor", None) if first else None
    if predictor is not None and predictor.prompt_tags is None and "tags" in model.parts:
      _warn(model_json.without_tags("set Predictor.prompt_tags"))
    evaluate_lib.show(evaluator.run(params, step))
    if predictor is not None and (problem := familiarity.write(model_dir, predictor.probabilities)):
      print(problem)
  if first and (steps := metrics_file.unfinished(model_dir)):
    _warn(
      f"{model_dir}: the run has done {steps[0]:,} of its {steps[1]:,} steps: let it finish before you judge it"
    )
  image = model.image_config()
  if (
    first and image and not parts.reads_stored(image) and model.language_model() and "dual" not in model.parts
  ):
    options = {"step": step, "weights": weights}
    chosen = "".join(f" --{name}={value}" for name, value in options.items() if value is not None)
    print(f"serve the model: xmcap serve --model_dir={shlex.quote(model_dir)}{chosen}")


evaluate = functools.partial(evaluate_lib.evaluate, _evaluate)
"""`xmcap eval` of a model folder; the arguments are those of gin's `evaluate`."""


def languages_of(model_dir: str, asked: str) -> tuple[str, ...]:
  """The codes that are asked for, as in `languages.parse`, of the model in a folder; "": see `languages.unasked`."""
  own = _read_model(model_dir).languages
  return languages.parse(asked, own) if asked else languages.unasked(own)


def caption_files(
  model_dir: str,
  images: Mapping[str, str],
  codes: Sequence[str],
  step: int | None = None,
  weights: str | None = None,
) -> Iterator[tuple[str, dict[str, str]]]:
  """Yields (file, {language: caption}) for each image in the languages `codes`; `step`, `weights`: see `load_params`.

  A file that is not a readable image is reported and left out. `images` has the file of each key; tags are those of
  the keys.

  Raises:
    UsageError: there are tags for the prompts, but the model was trained without them; or as `Predictor.prompts`.
  """
  predictor, model = Predictor(), _read_model(model_dir)
  if predictor.prompt_tags is None and "tags" in model.parts:
    _warn(model_json.without_tags("give --tags=FILE"))
  if predictor.prompt_tags is not None and "tags" not in model.parts:
    raise UsageError(f"{model_dir}: {model_json.TRAINED_WITHOUT_TAGS}")
  predictor.prompts(list(images), codes)  # reports an error in the tags before loading the parameters
  load = image_files.Loader(images, predictor.image_size)
  trained = model.languages
  if trained and (others := [language for language in codes if language not in trained]):
    _warn(languages.trained_on(trained, others))
  params, familiar = load_params(model_dir, step, weights), familiarity.read(model_dir)
  for key, captions in predictor(params, list(images), load, codes):
    if key in load.broken:
      continue
    means = {language: predictor.probabilities.get((key, language)) for language in codes}
    if warning := familiarity.unlike(familiar, means):
      _warn(terminal.shown(f"{images[key]}: {warning}", limit=None))
    yield images[key], captions


def _read_model(model_dir: str) -> model_json.Model:
  """The folder's `model.json`; a model that nothing is known of if there is none."""
  file = epath.Path(model_dir) / model_json.NAME
  return model_json.read(file) if file.exists() else model_json.Model()


def _warn(line: str) -> None:
  print(f"warning: {line}", file=sys.stderr)
