"""The commands that hold scores against people: human sxs, human thumb, human rate."""

import os
from collections.abc import Mapping, Sequence

from xmcap.commands import base, rate
from xmcap.errors import UsageError
from xmcap.storage import outputs


def add(commands) -> None:
  """Declares the commands."""
  human = commands.add_parser("human", help="hold scores against people", allow_abbrev=False)
  actions = human.add_subparsers(metavar="ACTION", required=True, parser_class=base.Parser)
  _add_sxs(actions)
  _add_thumb(actions)
  rate.add(actions)


def _add_sxs(actions) -> None:
  command = base.add_command(
    actions,
    "sxs",
    _sxs,
    "side-by-side ratings: wins, losses, delta SxS, and its correlation with a metric",
    "A rating from -3 to 3 says how the right caption compares with the left: 3 much better, 2 better, 1 slightly"
    " better, 0 similar, -1 slightly worse, -2 worse, -3 much worse.",
  )
  several = {"action": "extend", "nargs": "+", "default": []}
  command.add_argument(
    "--ratings",
    metavar="FILE",
    help="JSONL or .csv of image/key, language, rater, left, right (systems), rating",
  )
  command.add_argument(
    "--scores",
    **several,
    metavar="NAME=DIR",
    help="a rated system's folder from xmcap score, one for each system: correlates delta SxS with the metric",
  )
  command.add_argument("--metric", default="cider", metavar="NAME", help="of --scores")
  command.add_argument("--baseline", metavar="NAME", help="the system that others are held against")
  command.add_argument("--raters", type=int, default=3, metavar="N", help="expected for each image")
  command.add_argument(
    "--comparisons",
    **several,
    metavar="GROUP=FILE",
    help="CSV of m1, m2, lang, delta_sxs, delta_NAME...: correlates them for each group and for all; 'paper' for "
    "Tables 5 and 7 of the XM3600 paper, which give its Table 6",
  )
  _add_common(command)


def _add_thumb(actions) -> None:
  command = base.add_command(
    actions,
    "thumb",
    _thumb,
    "THumB 1.0 ratings: system means, best counts, agreement, correlations with metrics",
  )
  command.add_argument(
    "--ratings",
    required=True,
    metavar="FILE",
    help="JSONL of SYS, seg_id, hyp, P, R, Fl, Con, Inc and, where known, human_score and annotator",
  )
  command.add_argument(
    "--references",
    metavar="FILE",
    help="JSONL of seg_id and refs, or what xmcap score reads; needed for the correlations with metrics",
  )
  command.add_argument("--metrics", default="cider_d", metavar="NAMES", help="such as cider_d,rouge_l")
  command.add_argument("--tokenizer", default="default", metavar="NAME", help="what words are")
  command.add_argument(
    "--language", metavar="CODE", help="of the captions; default: what the ratings say, else en"
  )
  command.add_argument(
    "--human",
    metavar="NAME",
    help="the system that people wrote: correlations are given without it too; default: 'Human', if there is one",
  )
  command.add_argument(
    "--drop_identical_references",
    action="store_true",
    help="score the human captions without references that are the same words",
  )
  _add_common(command)


def _add_common(command) -> None:
  command.add_argument("--out", metavar="DIR", help="where the same is written as JSON, CSV and Markdown")
  resamples = "of the bootstrap intervals; 0 for none"
  command.add_argument("--resamples", type=int, default=1000, metavar="N", help=resamples)
  command.add_argument("--seed", type=int, default=0, metavar="N", help="of the resamples")


def _sxs(arguments) -> None:
  _check_numbers(arguments)
  if bool(arguments.ratings) == bool(arguments.comparisons):
    raise UsageError("xmcap human sxs needs either --ratings=FILE or --comparisons=GROUP=FILE (or =paper)")
  for name in ("scores", "baseline"):
    if getattr(arguments, name) and not arguments.ratings:
      raise UsageError(f"--{name} goes with --ratings; --comparisons hold their own pairs and differences")
  from xmcap.scoring import inputs
  from xmcap.scoring.human import rated_pairs, sxs, sxs_ratings

  bootstrap = {"resamples": arguments.resamples, "seed": arguments.seed}
  if arguments.comparisons == ["paper"]:
    pairs = rated_pairs.read_published()
    _show([rated_pairs.correlate(pairs, paper=True, **bootstrap)], arguments, {})
  elif arguments.comparisons:
    groups = rate.named_paths("comparisons", arguments.comparisons)
    inputs.check_pipes({f"--comparisons={group}": path for group, path in groups.items()})
    findings = rated_pairs.correlate(rated_pairs.read(groups), **bootstrap)
    _show([findings], arguments, {"--comparisons": groups.values()})
  else:
    folders = rate.named_paths("scores", arguments.scores)
    scores = rated_pairs.read_scores(folders, arguments.metric)
    ratings = sxs_ratings.read(arguments.ratings)
    findings = [sxs.evaluate(ratings, arguments.baseline, raters=arguments.raters, **bootstrap)]
    if scores:
      pairs = sxs.with_scores(findings[0].tallies, scores, arguments.metric)
      findings.append(rated_pairs.correlate(pairs, **bootstrap))
    tables = [os.path.join(folder, "table.json") for folder in folders.values()]
    _show(findings, arguments, {"--ratings": arguments.ratings, "--scores": tables})


def _thumb(arguments) -> None:
  from xmcap import languages

  _check_numbers(arguments)
  if arguments.language:
    languages.get(arguments.language)
  for name in ("human", "drop_identical_references"):
    if getattr(arguments, name) and not arguments.references:
      raise UsageError(f"--{name} is about correlations with metrics; it needs --references=FILE")
  from xmcap.scoring import inputs
  from xmcap.scoring.human import thumb, thumb_correlations, thumb_ratings

  read = {"--ratings": arguments.ratings, "--references": arguments.references}
  inputs.check_pipes(read)
  bootstrap = {"resamples": arguments.resamples, "seed": arguments.seed}
  ratings = thumb_ratings.read(arguments.ratings, arguments.language)
  metrics = []
  if arguments.references:
    metrics = thumb_correlations.correlate(
      ratings,
      thumb_ratings.read_references(arguments.references, ratings.keys, ratings.language or "en"),
      names=arguments.metrics.split(","),
      tokenizer=arguments.tokenizer,
      human=arguments.human or _human_system(ratings.systems),
      drop_identical_references=arguments.drop_identical_references,
      **bootstrap,
    )
  _show([thumb.evaluate(ratings, metrics, **bootstrap)], arguments, read)


def _human_system(systems: Sequence[str]) -> str | None:
  """Returns the system that THumB's own ratings call the people's, if it is there and not alone."""
  return "Human" if "Human" in systems and len(systems) > 1 else None


def _check_numbers(arguments) -> None:
  from xmcap.scoring import options

  for name, lowest, highest in (
    ("resamples", 0, options.MAX_RESAMPLES),
    ("seed", 0, options.MAX_SEED),
    ("raters", 1, 1_000),
  ):
    value = getattr(arguments, name, lowest)
    if not lowest <= value <= highest:
      raise UsageError(f"--{name}={value}: give a number from {lowest} to {highest:,}")


def _show(findings: Sequence, arguments, read: Mapping[str, outputs.Paths]) -> None:
  """Prints findings, and writes them to --out; UsageError if that would be over what was read."""
  out = arguments.out
  if out:
    outputs.keep_apart({"--out": [file for each in findings for file in each.files(out)]}, read)
  print("\n\n".join(each.terminal() for each in findings))
  if out:
    with outputs.held(out, arguments.prog), outputs.together(out):
      for each in findings:
        each.write(out)
    print(f"\n{out}: written")
