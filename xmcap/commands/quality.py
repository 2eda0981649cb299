"""`xmcap human quality` and `choose`: the levels of captions, and which comparisons are worth their raters."""

from xmcap.commands import base, findings
from xmcap.errors import UsageError
from xmcap.files import outputs


def add(actions) -> None:
  """Declares the commands among the actions of `xmcap human`."""
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
  base.number(command, "--resamples", "resamples for bootstrap intervals; 0: none", 1000, most=100_000)
  base.number(command, "--seed", "seed of the drawn captions, or of the resamples", 0)
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
    findings.show([evaluation], arguments, {"--ratings": arguments.ratings})
    return
  if not arguments.out:
    raise UsageError("--references: name the file for the drawn captions with --out=FILE.jsonl")
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
  from xmcap import languages
  from xmcap.human import comparison_choice, rated_pairs

  if not 0 <= arguments.small < float("inf"):
    raise UsageError(f"--small={arguments.small:g}: give a number from 0")
  folders = {name: base.named_paths(f"--{name}", getattr(arguments, name)) for name in ("scores", "silver")}
  scores, silver = (rated_pairs.read_scores(of_set, arguments.metric) for of_set in folders.values())
  core = languages.parse(arguments.core) if arguments.core else ()
  choice = comparison_choice.choose(scores, silver, core, arguments.small)
  read = {f"--{name}": list(of_set.values()) for name, of_set in folders.items()}
  findings.show([choice], arguments, read)
