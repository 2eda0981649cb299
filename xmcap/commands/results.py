"""`xmcap results`: scores and captions as the places take them that collect results."""

import os
import time

from xmcap.commands import base
from xmcap.files import outputs


def add(commands) -> None:
  """Declares the commands."""
  results = base.add_group(
    commands, "results", "PLACE", "write scores and captions as leaderboards take them"
  )
  command = base.add_command(
    results, "hub", _hub, "write scores for .eval_results/ of a model on the Hugging Face Hub",
    "The Hub shows scores of benchmarks: datasets with an eval.yaml that has the task.",
  )  # fmt: skip
  _add_scores(command, "a benchmark, or OWNER/NAME@REVISION")
  task = "of its eval.yaml; with {language} in it an entry for each language"
  base.text(command, "--task", "ID", task, required=True)
  base.text(command, "--metric", "NAME", "default: CIDEr-D, or else the first", "", short="-m")
  base.text(command, "--row", "NAME", "a language or a mean of table.json; default: the mean over all", "")
  path = "such as MODEL/.eval_results/NAME.yaml"
  base.text(command, "--out", "FILE", path, short="-o", required=True, endings=(".yaml", ".yml"))
  command = base.add_command(
    results, "every-eval-ever", _every_eval_ever, "write all scores of a table as a record of Every Eval Ever"
  )
  _add_scores(command, "a dataset of the Hub, or OWNER/NAME@REVISION")
  base.text(command, "--model", "OWNER/NAME", "the model, as on the Hub", required=True)
  base.text(command, "--organization", "NAME", "who publishes these scores", required=True)
  relationships = ("first_party", "third_party", "collaborative", "other")
  base.text(
    command, "--relationship", None, "of the evaluator to the model", required=True, choices=relationships
  )
  path = "folder for data/NAME/OWNER/MODEL/UUID.json"
  base.text(command, "--out", "DIR", path, short="-o", required=True)
  command = base.add_command(
    results, "coco", _coco, "write captions for COCO's server, or one on EvalAI",
    'JSON of {"image_id", "caption"}. COCO wants captions_val2014_NAME_results.json and captions_test2014_NAME_results'
    ".json in results.zip.",
  )  # fmt: skip
  base.text(command, "--predictions", "FILE", "captions, as for xmcap score", short="-p", required=True)
  base.text(command, "--language", "CODE", "which of several, or that of captions without one", short="-l")
  images = "annotations or image info of the split: each image needs a caption, and keys may be file names"
  base.text(command, "--images", "FILE", images, "")
  base.text(command, "--key", "REGEX", "regular expression whose group is the id in a key")
  base.text(command, "--out", "FILE", "the file", short="-o", required=True, endings=(".json",))


def _add_scores(command, dataset: str) -> None:
  base.text(command, "scores", "SCORES", "the folder of xmcap score")
  base.text(command, "--dataset", "OWNER/NAME", dataset, required=True)
  captions = "the captions that were scored: what xmcap caption wrote beside them has prompt and parameters"
  base.text(command, "--predictions", "FILE", captions, "", short="-p")


def _hub(arguments) -> None:
  from xmcap.scoring.tables import leaderboards

  base.require(arguments, ("task",))
  table, generation = _read(arguments)
  options = (arguments.dataset, arguments.task, arguments.metric, arguments.row)
  _write(arguments, leaderboards.hub(table, *options, generation))
  base.say(
    f"the Hub shows it if {arguments.dataset} is a benchmark there, with an eval.yaml that has the task"
  )


def _every_eval_ever(arguments) -> None:
  from xmcap.files import files
  from xmcap.scoring.tables import leaderboards

  base.require(arguments, ("organization",))
  table, generation = _read(arguments)
  names = (arguments.model, arguments.dataset, arguments.organization, arguments.relationship)
  path, text = leaderboards.record(table, *names, int(time.time()), generation)
  with outputs.held(arguments.out, arguments.prog):
    files.write_text(os.path.join(arguments.out, path), text)
  print(os.path.join(arguments.out, path))


def _read(arguments):
  """Returns the table and how its captions were made."""
  from xmcap.scoring import result
  from xmcap.scoring.tables import leaderboards

  table = result.read_table(os.path.join(arguments.scores, "table.json"))
  is_known = bool(arguments.predictions)
  return table, leaderboards.Generation.read(
    table, arguments.predictions
  ) if is_known else leaderboards.UNKNOWN


def _coco(arguments) -> None:
  from xmcap.reading import submission

  outputs.keep_apart(
    {"--out": arguments.out}, {"--predictions": arguments.predictions, "--images": arguments.images}
  )
  captions, notes = submission.read(
    arguments.predictions, arguments.language, arguments.images, arguments.key
  )
  for note in notes:
    base.say(note)
  _write(arguments, submission.as_json(captions))
  empty = sum(not caption.strip() for caption in captions.values())
  base.say(f"{len(captions):,} captions" + (f", {empty:,} of them empty" if empty else ""))


def _write(arguments, text: str) -> None:
  from xmcap.files import files

  with outputs.held(arguments.out, arguments.prog, folder=False):
    files.write_text(arguments.out, text)
  print(arguments.out)
