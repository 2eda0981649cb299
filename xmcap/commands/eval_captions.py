"""`xmcap eval` without weights: the captions are those of an endpoint, a function or files; the rest is the same."""

import os
import pathlib
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING

from xmcap.commands import base, captioners
from xmcap.errors import UsageError
from xmcap.files import outputs

if TYPE_CHECKING:
  from xmcap.evaluation.caption_evaluator import Captioner, CaptionEvaluator
  from xmcap.reading.predictions import CheckedPredictions

ASKED = "captions.jsonl"  # in out_dir, with its answers and its provenance
_EVALUATOR = "CaptionEvaluator"


def run(arguments, default: Sequence[str]) -> None:
  """Runs the captioning evaluators of the gin files, or of `default`; UsageError if another one is among them."""
  from xmcap import configuration
  from xmcap.evaluation import evaluate
  from xmcap.reading.missing import Unmatched

  if model := next((file for file in arguments.gin_file if file.endswith(".json")), None):
    raise UsageError(f"--gin_file={model} is of a trained model, and of nothing else: leave it out")
  files, search = base.gin_files(arguments, default)
  captioner = _of_files(arguments.predictions) if arguments.predictions else _of(arguments)
  door = next(name for name in ("predictions", "captioner", "endpoint") if getattr(arguments, name))

  def settle() -> None:
    _check_evaluators(f"--{door}")
    configuration.bind_all(_EVALUATOR, "predictor", captioner)

  configuration.parse([*files, configuration.stand_in_for_model], arguments.overrides, search, settle)
  if arguments.explain:
    print(configuration.explain())
    return

  def on_captions(model_dir, evaluators, step, weights) -> None:
    for evaluator in evaluators:
      try:
        evaluate.show(evaluator.run(None, None))
      except Unmatched as error:
        text = str(error)
        for option in ("missing", "languages"):
          text = text.replace(f"--{option}", f"--gin.{_EVALUATOR}.{option}")
        raise UsageError(f"{evaluator.path}: {text}") from None

  evaluate.evaluate(on_captions)


def _check_evaluators(door: str) -> None:
  """Raises UsageError if some evaluators of the gin files need weights; they are named."""
  import gin

  from xmcap import configuration

  bound = gin.get_bindings("evaluate", resolve_references=False).get("evaluators", ())
  names = [getattr(one, "selector", "").rpartition(".")[2] for one in configuration.unresolved(bound)]
  if others := sorted({name for name in names if name != _EVALUATOR}):
    raise UsageError(
      f"{door} has no weights for {', '.join(others)}: give --model_dir, or evaluators of captions alone, such as"
      f" --gin.evaluate.evaluators='[@{_EVALUATOR}()]'"
    )


def _of_files(values: Sequence[str]) -> "Captioner":
  """Captions of files, FILE for every evaluator or NAME=FILE for the one of this name."""
  paths: dict[str, list[str]] = {}
  for value in values:
    name, equals, path = value.partition("=")
    is_named = equals and path and not os.path.exists(value)
    paths.setdefault(name if is_named else "", []).append(path if is_named else value)

  def captions(evaluator: "CaptionEvaluator") -> "CheckedPredictions":
    own = paths.get(evaluator.name) or paths.get("")
    if not own:
      raise UsageError(
        f"--predictions: none for the evaluator '{evaluator.name}': give --predictions={evaluator.name}=FILE"
      )
    if evaluator.out_dir:
      from xmcap.pages import output

      outputs.keep_apart(
        {"CaptionEvaluator.out_dir": output.files_of(evaluator.out_dir)}, {"--predictions": own}
      )
    return _read(evaluator, own)

  return captions


def _of(arguments) -> "Captioner":
  """Captions of an endpoint or a function, which lie in the evaluator's out_dir with its answers."""
  captioner = captioners.get(arguments)

  def captions(evaluator: "CaptionEvaluator") -> "CheckedPredictions":
    from xmcap.endpoint.inputs import Pictures
    from xmcap.files import addresses, files
    from xmcap.reading import predictions, provenance

    with tempfile.TemporaryDirectory(prefix="xmcap-") as temporary:
      folder = evaluator.out_dir or temporary
      if addresses.is_remote(folder):
        raise UsageError(
          f"CaptionEvaluator.out_dir={folder}: answers are kept on a disk: name a folder here, and copy it"
        )
      out = pathlib.Path(folder, ASKED)
      outputs.keep_apart({"CaptionEvaluator.out_dir": out}, {"CaptionEvaluator.references": evaluator.path})
      pictures = Pictures(list(evaluator.references), evaluator.read, {})
      with captioners.journal(str(out), arguments.prog) as journal:
        outcome = captioner.ask(pictures, evaluator.languages, journal)
      files.write_lines(out, predictions.as_lines(iter(outcome.captions.items())))
      provenance.write(out, outcome.provenance)
      for note in outcome.notes:
        base.say(note)
      if outcome.missing:
        base.say(
          f"{outcome.missing:,} captions are missing: the same command asks again for those that failed"
        )
      return _read(evaluator, [str(out)])

  return captions


def _read(evaluator: "CaptionEvaluator", paths: Sequence[str]) -> "CheckedPredictions":
  """Reads captions as `xmcap score` does."""
  from xmcap.reading import predictions
  from xmcap.reading.captions import MAX_CAPTION

  # What CaptionEvaluator.clean removes may be what makes a caption too long.
  longest = None if evaluator.options.clean else MAX_CAPTION
  return predictions.read_predictions(paths, None, evaluator.all, None, longest)
