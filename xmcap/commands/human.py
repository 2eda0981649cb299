"""Commands for human ratings and annotations: human sxs, thumb, rubric, and those of other modules."""

import os

from xmcap import languages
from xmcap.commands import annotate, base, quality, rate
from xmcap.commands.findings import show as _show
from xmcap.errors import UsageError

_COMPARISONS = (
  "CSV of m1, m2, lang, delta_sxs, delta_NAME..., to correlate for each group and overall; 'paper' for Tables 5 and 7 "
  "of the XM3600 paper, 'draft' for Table 5 of its draft"
)


def add(commands) -> None:
  """Declares the commands."""
  actions = base.add_group(
    commands, "human", "ACTION", "collect human ratings and captions, and correlate ratings with scores"
  )
  _add_sxs(actions)
  _add_thumb(actions)
  _add_rubric(actions)
  quality.add(actions)
  rate.add(actions)
  annotate.add(actions)


def _add_sxs(actions) -> None:
  command = base.add_command(
    actions, "sxs", _sxs, "side-by-side ratings: wins, losses, delta SxS, and its correlation with a metric",
    "A rating from -3 to 3 says how the right caption compares with the left: 3 much better, 2 better, 1 slightly"
    " better, 0 similar, -1 slightly worse, -2 worse, -3 much worse.",
  )  # fmt: skip
  ratings = "JSONL or .csv of image/key, language, rater, left, right (systems), rating"
  scores = "folder from xmcap score for each rated system, to correlate delta SxS with the metric"
  base.text(command, "--ratings", "FILE", ratings, **base.SEVERAL)
  base.text(command, "--scores", "NAME=DIR", scores, **base.SEVERAL)
  base.text(command, "--metric", "NAME", "metric of --scores", "cider")
  base.text(command, "--baseline", "NAME", "system with which the others are compared")
  base.number(command, "--raters", "expected raters per image", 3, least=1, most=1_000)
  base.text(command, "--comparisons", "GROUP=FILE", _COMPARISONS, **base.SEVERAL)
  directions = "how often a comparison counts: in both directions, as in the paper, or once, as in its draft"
  base.text(command, "--directions", None, directions, "both", choices=("once", "both"))
  _add_common(command)


def _add_thumb(actions) -> None:
  summary = "THumB 1.0 ratings: system means, best counts, agreement, correlations with metrics"
  command = base.add_command(actions, "thumb", _thumb, summary)
  ratings = "JSONL of SYS, seg_id, hyp, P, R, Fl, Con, Inc, and optionally human_score and annotator"
  references = "JSONL of seg_id and refs, or references for xmcap score; needed for correlations with metrics"
  human = (
    "the system of human captions: correlations are also given without it; default: 'Human', if there is one"
  )
  drop = "score human captions without references that are identical to them"
  base.text(command, "--ratings", "FILE", ratings, required=True, **base.SEVERAL)
  base.text(command, "--references", "FILE", references)
  base.text(
    command, "--metrics", "NAMES", "such as cider_d,rouge_l; NAME:TOKENIZER for words of its own", "cider_d"
  )
  base.text(
    command, "--vectors", "DIR", "embeddings for clip_score, similarity and so on (docs/scoring.md)", ""
  )
  base.text(command, "--tokenizer", "NAME", "tokenizer of the other metrics", "default")
  base.text(command, "--language", "CODE", "language of the captions; default: as in the ratings, else en")
  base.text(command, "--human", "NAME", human)
  base.flag(command, "--drop_identical_references", drop)
  _add_common(command)


def _add_rubric(actions) -> None:
  command = base.add_command(
    actions, "rubric", _rubric, "ratings of captions or tags by a rubric: means, deviations, agreement",
    "Judged tags also get precision, recall and F, as in the tables of COCO-CN.",
  )  # fmt: skip
  base.text(command, "--ratings", "FILE", "what xmcap human rate --join wrote", required=True, **base.SEVERAL)
  base.text(command, "--out", "DIR", "folder for the results as JSON, CSV, Markdown and LaTeX")


def _add_common(command) -> None:
  base.text(command, "--out", "DIR", "folder for the results as JSON, CSV, Markdown and LaTeX")
  base.number(command, "--resamples", "resamples for bootstrap intervals; 0: none", 1000, most=100_000)
  base.number(command, "--seed", "seed of the resamples", 0)


def _sxs(arguments) -> None:
  if bool(arguments.ratings) == bool(arguments.comparisons):
    raise UsageError(
      "xmcap human sxs needs either --ratings=FILE or --comparisons=GROUP=FILE (or =paper, =draft)"
    )
  for name in ("scores", "baseline"):
    if getattr(arguments, name) and not arguments.ratings:
      raise UsageError(f"--{name} needs --ratings: files of --comparisons already hold pairs and differences")
  from xmcap.human import rated_pairs, sxs
  from xmcap.reading import inputs

  bootstrap = {"resamples": arguments.resamples, "seed": arguments.seed}
  how = {**bootstrap, "directions": arguments.directions}
  if arguments.comparisons in (["paper"], ["draft"]):
    pairs = rated_pairs.read_published(arguments.comparisons[0])
    _show([rated_pairs.correlate(pairs, **how)], arguments, {})
  elif arguments.comparisons:
    groups = base.named_paths("--comparisons", arguments.comparisons)
    inputs.check_pipes({f"--comparisons={group}": path for group, path in groups.items()})
    pairs = rated_pairs.read(groups)
    _show([rated_pairs.correlate(pairs, **how)], arguments, {"--comparisons": groups.values()})
  else:
    inputs.check_pipes({"--ratings": arguments.ratings})
    folders = base.named_paths("--scores", arguments.scores)
    scores = rated_pairs.read_scores(folders, arguments.metric)
    ratings = sxs.read(arguments.ratings)
    findings: list = [sxs.evaluate(ratings, arguments.baseline, raters=arguments.raters, **bootstrap)]
    if scores:
      pairs = sxs.with_scores(findings[0].tallies, scores, arguments.metric)
      findings.append(rated_pairs.correlate(pairs, **how))
    tables = [os.path.join(folder, "table.json") for folder in folders.values()]
    _show(findings, arguments, {"--ratings": arguments.ratings, "--scores": tables})


def _thumb(arguments) -> None:
  if arguments.language:
    languages.get(arguments.language)
  for name in ("human", "drop_identical_references", "vectors"):
    if getattr(arguments, name) and not arguments.references:
      raise UsageError(f"--{name} is for correlations with metrics, which need --references=FILE")
  from xmcap.human import thumb, thumb_correlations, thumb_ratings
  from xmcap.reading import inputs

  read = {"--ratings": arguments.ratings, "--references": arguments.references}
  inputs.check_pipes(read)
  bootstrap = {"resamples": arguments.resamples, "seed": arguments.seed}
  ratings = thumb_ratings.read(arguments.ratings, arguments.language)
  # The name in THumB's own ratings. If it is the only system, nothing could be correlated without it.
  people = "Human" if "Human" in ratings.systems and len(ratings.systems) > 1 else None
  metrics = []
  if arguments.references:
    metrics = thumb_correlations.correlate(
      ratings,
      thumb_ratings.read_references(arguments.references, ratings.keys, ratings.language or "en"),
      names=arguments.metrics.split(","),
      tokenizer=arguments.tokenizer,
      human=arguments.human or people,
      drop_identical_references=arguments.drop_identical_references,
      vectors=arguments.vectors,
      **bootstrap,
    )
  _show([thumb.evaluate(ratings, metrics, **bootstrap)], arguments, read)


def _rubric(arguments) -> None:
  from xmcap.human import rubric
  from xmcap.reading import inputs

  read = {"--ratings": arguments.ratings}
  inputs.check_pipes(read)
  _show([rubric.evaluate(rubric.read(arguments.ratings))], arguments, read)
