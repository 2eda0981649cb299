"""The command that scores tags of pictures: score tags."""

from xmcap.commands import base, score_embeddings
from xmcap.errors import UsageError
from xmcap.storage import outputs


def add(actions) -> None:
  """Declares the command among those of `xmcap score`."""
  command = base.add_command(
    actions, "tags", _tags, "score predicted tags of pictures: precision, recall and F at k",
    "Scores each language as in COCO-CN. Writes table.csv, .json, .md and .tex, scores.npz and report.html.",
  )  # fmt: skip
  tags = 'JSONL of {"image/key", "language", "tags": [...]}, or lines of ID tag tag ... with --language'
  ranked = f'{tags}; best first, or "tags": {{tag: score}}'
  depths = "numbers of predicted tags to score: 1, 3, 5 or 10, separated by commas"
  labels = "the known tags, one per line; any other tag is an error"
  base.text(command, "--references", "FILE", tags, short="-r", required=True)
  base.text(command, "--predictions", "FILE", ranked, short="-p", required=True)
  base.text(command, "--labels", "FILE", labels)
  base.text(command, "--k", "NUMBERS", depths, "5")
  base.text(command, "--language", "CODE", "language of lines that name none", short="-l")
  score_embeddings.add_output(command)


def _tags(arguments) -> None:
  from xmcap.scoring import inputs, tag_files, tags
  from xmcap.scoring.metrics.tags import DEPTHS

  depths = score_embeddings.parse_depths(arguments.k, DEPTHS)
  read = ("references", "predictions", "labels")
  score_embeddings.keep_apart(arguments, read, score_embeddings.SCORES)
  inputs.check_pipes({f"--{name}": getattr(arguments, name) for name in read})
  with outputs.held(arguments.out, arguments.prog):
    references = tag_files.read(arguments.references, arguments.language, arguments.languages)
    predictions = tag_files.read(arguments.predictions, arguments.language, arguments.languages)
    extra = [code for code in predictions if code not in references]
    if extra:
      raise UsageError(
        f"{arguments.references}: no tags in {', '.join(extra)}, which are predicted; choose by --languages"
      )
    result = tags.score_tags(
      references,
      predictions,
      depths,
      vocabulary=tag_files.read_vocabulary(arguments.labels) if arguments.labels else None,
      bootstrap=arguments.bootstrap,
      seed=arguments.seed,
      title=arguments.title,
    )
    score_embeddings.write(arguments, result)
