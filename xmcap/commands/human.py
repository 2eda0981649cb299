"""Commands for human ratings: human sxs, thumb, rubric, quality, choose, and those of other modules."""

import os
from collections.abc import Mapping, Sequence

from xmcap import languages
from xmcap.commands import annotate, base, judgements, rate
from xmcap.errors import UsageError
from xmcap.files import outputs

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
  _add_quality(actions)
  _add_choose(actions)
  rate.add(actions)
  annotate.add(actions)
  judgements.add(actions)


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
  normalize = "of the words, as of xmcap score; sentence: THumB's own"
  base.text(command, "--ratings", "FILE", ratings, required=True, **base.SEVERAL)
  base.text(command, "--references", "FILE", references)
  base.text(
    command, "--metrics", "NAMES", "such as cider_d,rouge_l; NAME:TOKENIZER for words of its own", "cider_d"
  )
  base.text(
    command, "--vectors", "DIR", "embeddings for clip_score, similarity and so on (docs/metrics.md)", ""
  )
  base.text(command, "--tokenizer", "NAME", "tokenizer of the other metrics", "default")
  base.text(command, "--language", "CODE", "language of the captions; default: as in the ratings, else en")
  base.text(command, "--human", "NAME", human)
  base.text(command, "--normalize", "NAME", normalize, "")
  _add_common(command)


def _add_rubric(actions) -> None:
  command = base.add_command(
    actions, "rubric", _rubric, "ratings of captions or tags by a rubric: means, deviations, agreement",
    "Judged tags also get precision, recall and F, as in the tables of COCO-CN.",
  )  # fmt: skip
  base.text(command, "--ratings", "FILE", "what xmcap human rate --join wrote", required=True, **base.SEVERAL)
  base.text(command, "--out", "DIR", "folder for the results as JSON, CSV, Markdown and LaTeX")
  base.add_raw(command)


def _add_quality(actions) -> None:
  command = base.add_command(
    actions, "quality", _quality, "shares of good, medium and bad captions, by the median of three raters",
    "As Table 2 of the XM3600 paper. With --references it draws the captions to rate: one of each of --limit random "
    "pictures in each language. xmcap human rate --protocol=xm3600_quality makes the page; then give --ratings.",
  )  # fmt: skip
  ratings = "JSONL or .csv of image/key, language, rater, quality, and optionally system and caption"
  base.text(command, "--ratings", "FILE", ratings, **base.SEVERAL)
  base.text(
    command, "--references", "FILE", "captions to draw from, in a layout of xmcap score", **base.SEVERAL
  )
  base.number(command, "--limit", "pictures to draw", 600, least=1)
  base.number(command, "--raters", "expected raters per caption", 3, least=1, most=1_000)
  base.text(command, "--out", "PATH", "folder for the results; with --references: the file of drawn captions")
  base.add_raw(command)
  _add_resamples(command, "seed of the drawn captions, or of the resamples")


def _add_choose(actions) -> None:
  command = base.add_command(
    actions, "choose", _choose, "choose the side-by-side comparisons that two sets of references leave open",
    "As section 3.3 of the XM3600 paper: all pairs of systems in --core, elsewhere those whose differences on the two "
    "sets have opposite signs, or of which one is small. Then xmcap human rate --protocol=sxs makes the pages.",
  )  # fmt: skip
  base.text(command, "--scores", "NAME=DIR", "folder from xmcap score for each system", **base.SEVERAL)
  silver = "the same with other references, such as translated ones"
  base.text(command, "--silver", "NAME=DIR", silver, **base.SEVERAL)
  base.text(command, "--metric", "NAME", "metric of the scores", "cider")
  base.text(command, "--core", "CODES", "languages in which all pairs are rated, such as en,es,hi,zh", "")
  base.text(
    command, "--small", "X", "a difference up to this is small, in the unit of the metric", 0.01, type=float
  )
  base.text(command, "--out", "DIR", "folder for comparisons.csv, .json, .md and .tex")
  base.add_raw(command)


def _add_common(command) -> None:
  base.text(command, "--out", "DIR", "folder for the results as JSON, CSV, Markdown and LaTeX")
  base.add_raw(command)
  _add_resamples(command, "seed of the resamples")


def _add_resamples(command, seed: str) -> None:
  base.number(command, "--resamples", "resamples for bootstrap intervals; 0: none", 1000, most=100_000)
  base.number(command, "--seed", seed, 0)


def _sxs(arguments) -> None:
  if bool(arguments.ratings) == bool(arguments.comparisons):
    raise UsageError(
      "xmcap human sxs needs either --ratings=FILE or --comparisons=GROUP=FILE (or =paper, =draft)"
    )
  if not arguments.ratings:
    why = "needs --ratings: files of --comparisons already hold pairs and differences"
    base.refuse(arguments, ("scores", "baseline"), why)
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
    folders = base.named_paths("--scores", arguments.scores, unnamed=True)
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
  if not arguments.references:
    why = "is for correlations with metrics, which need --references=FILE"
    base.refuse(arguments, ("human", "normalize", "vectors"), why)
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
      normalize=arguments.normalize,
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


def _quality(arguments) -> None:
  if bool(arguments.ratings) == bool(arguments.references):
    raise UsageError(
      "xmcap human quality needs either --references=FILE, to draw captions, or --ratings=FILE"
    )
  from xmcap.human import quality
  from xmcap.reading import inputs

  inputs.check_pipes({"--ratings": arguments.ratings, "--references": arguments.references})
  if arguments.ratings:
    evaluation = quality.evaluate(
      quality.read(arguments.ratings), arguments.resamples, arguments.seed, arguments.raters
    )
    _show([evaluation], arguments, {"--ratings": arguments.ratings})
    return
  if not arguments.out:
    raise UsageError("--references: name the file for the drawn captions with --out=FILE.jsonl")
  base.check_ending("--out", arguments.out, [".jsonl"])
  from xmcap.human import rating_join
  from xmcap.reading.references import read_references

  outputs.keep_apart({"--out": arguments.out}, {"--references": arguments.references})
  with outputs.held(arguments.out, arguments.prog, folder=False):
    rows = list(quality.draw(read_references(arguments.references), arguments.limit, arguments.seed))
    rating_join.write_rows(arguments.out, rows)
  print(
    f"{arguments.out}: {len(rows):,} captions, {arguments.limit:,} in each of "
    f"{len({row['language'] for row in rows}):,} languages, seed {arguments.seed}; next: xmcap human rate "
    f"--protocol=xm3600_quality --predictions people={arguments.out} --out=page.html"
  )


def _choose(arguments) -> None:
  from xmcap.human import comparison_choice, rated_pairs

  if not 0 <= arguments.small < float("inf"):
    raise UsageError(f"--small={arguments.small:g}: give a number from 0")
  named = {f"--{name}": getattr(arguments, name) for name in ("scores", "silver")}
  folders = {option: base.named_paths(option, values, unnamed=True) for option, values in named.items()}
  scores, silver = (rated_pairs.read_scores(of_set, arguments.metric) for of_set in folders.values())
  core = languages.parse(arguments.core) if arguments.core else ()
  choice = comparison_choice.choose(scores, silver, core, arguments.small)
  read = {option: list(of_set.values()) for option, of_set in folders.items()}
  _show([choice], arguments, read)


def _show(findings: Sequence, arguments, read: Mapping[str, outputs.Paths]) -> None:
  """Prints findings, and writes them to --out; UsageError if that would overwrite an input."""
  out = arguments.out
  if out:
    outputs.keep_apart({"--out": [file for finding in findings for file in finding.files(out)]}, read)
  print("\n\n".join(finding.terminal(out) for finding in findings))
  if out:
    with outputs.held(out, arguments.prog), outputs.together(out):
      for finding in findings:
        finding.write(out)
    print(f"\n{out}: written")
