"""The commands that score captions and compare scores."""

import contextlib
import dataclasses
import os

from xmcap.commands import base, score_ranked
from xmcap.errors import UsageError
from xmcap.files import outputs

_OF_FILES = ("language", "key", "baseline", "only_tables", "plot", "pictures")


def add(commands) -> None:
  """Declares the commands."""
  _add_score(commands)
  _add_compare(commands)


def _add_score(commands) -> None:
  command = base.add_command(
    commands, "score", _score, "score predictions against references: CIDEr for each language",
    "Writes table.csv, .json, .md and .tex, scores.npz, slices.csv, captions.csv, health.csv and report.html.",
  )  # fmt: skip
  references = (
    "captions.jsonl or captions.zip of XM3600, COCO annotations, JSONL of image/key, language, caption, or a layout of "
    "other programs (docs/scoring.md)"
  )
  captions = (
    'JSONL of {"image/key", "language", "caption"}, COCO results, CSV, text (one per line, in the order of the '
    "references), a layout of other programs (docs/scoring.md), or a folder of CODE.jsonl, .json, .csv and so on"
  )
  # Required, except by the subcommands.
  base.text(command, "--references", "FILE", references, short="-r", **base.SEVERAL)
  base.text(command, "--predictions", "FILE", captions, short="-p", **base.SEVERAL)
  base.text(command, "--out", "DIR", "folder for the tables and the report", short="-o")
  base.text(command, "--language", "CODE", "language of captions without one: COCO's, plain text", short="-l")
  group = "regular expression whose group is the image's key in an id, such as '(.*)_en'"
  base.text(command, "--key", "REGEX", group)
  base.add_columns(command)
  base.add_languages(command, "only these; default: all in the references")
  shared = "number of processes, at most one per language; 0: one per core"
  base.number(command, "--processes", shared, 0)

  words = command.add_argument_group("scoring")
  protocol = (
    "how others score, such as paligemma, centurio, mblip, xm100, xm3600, vlmevalkit: words, metrics, scale; default: "
    "xmcap, with which any other option goes (docs/compare.md)"
  )
  metrics = (
    "cider, cider_d, bleu (1 to 4), chrf, rouge_l, exact, or all of these; meteor, spice (English, with Java); "
    "meteor_char (Chinese); sentence_bleu, rouge_l_f1; of --vectors clip_score, ref_clip_score, similarity (largest "
    "and mean); default: the protocol's, cider,cider_d"
  )
  tokenizer = (
    "default, char, given (the release's caption/tokenized), ptb (made for English, needs Java), coco, coco_spacy, "
    "coco_xm100 (as in the protocols), split (already segmented), raw (as it is, at spaces), whitespace, morphemes "
    "(default, but Korean by MeCab-ko), 13a (sacreBLEU's), rouge (rouge-score's); default: the protocol's, default"
  )
  missing = "if predictions are missing: refuse, or score them as empty captions (empty)"
  base.text(words, "--protocol", "NAME", protocol)
  base.text(words, "--metrics", "NAMES", metrics, short="-m")
  base.text(words, "--tokenizer", "NAME", tokenizer, short="-t")
  normalize = (
    "orthography: unify letters with two spellings, such as ş and ș; sentence: a capital first, a full stop last, in "
    "English"
  )
  base.text(words, "--normalize", "NAME", normalize, "")
  clean = (
    "remove from the predictions what models and programs leave: subwords, escapes, entities, mojibake, invisible, "
    "think, tokens, json, loc, html, latex, markdown, prefix, lines, suffix, or all"
  )
  base.text(words, "--clean", "KINDS", clean, "")
  base.text(words, "--df", "FILE", "document frequencies; default: those of the references", "")
  base.text(words, "--save_df", "FILE", "write the document frequencies of the references", "")
  base.text(words, "--subset", "KEYS", "a file of image keys, or xm600:SEED for 600 random ones", "")
  base.text(words, "--missing", "WAY", missing, "refuse")
  wrong = "captions in another language: keep, or score them as empty captions (zero)"
  base.text(words, "--wrong_language", "WAY", wrong, "keep")
  vectors = (
    "embeddings of pictures and captions, as `xmcap embed` writes them or any script (docs/metrics.md)"
  )
  base.text(words, "--vectors", "DIR", vectors, "")
  base.number(words, "--bootstrap", "resamples for 95%% intervals, such as 1000", 0)
  base.number(words, "--seed", "seed of the resamples", 0)
  base.flag(words, "--no_health", "skip the check for wrong languages and similar problems")

  shown = command.add_argument_group("output")
  baseline = (
    "scores to compare with: a folder of xmcap score, or printed ones: 'paper' or 'xm3600' (four models of the XM3600 "
    "paper), 'paligemma', 'centurio', 'gemini'"
  )
  base.text(shown, "--title", "TEXT", "title of the tables and the report", "")
  base.text(shown, "--baseline", "DIR", baseline, "")
  _add_scale(shown, "the protocol's")
  _add_pictures(shown)
  _add_plot(shown, "scores by language")
  base.flag(shown, "--only_tables", "write only the tables")
  base.add_raw(shown)
  _add_latex(shown, "table.tex, such as language,cider_d; default: all")
  kinds = command.add_subparsers(
    metavar="zero-shot|retrieval|tags", title="embeddings and tags", parser_class=base.CommandParser,
    description="score embeddings or tags instead of captions; each has its own --help",
  )  # fmt: skip
  score_ranked.add(kinds)


def _add_pictures(command) -> None:
  how = "pictures in the report: embed thumbnails, link to the files, or none"
  base.text(command, "--images", "DIR", "folder with KEY.jpg or KEY.png for the report")
  base.text(command, "--pictures", "WAY", how, "embed", choices=("embed", "link", "none"))


def _add_plot(command, content: str) -> None:
  base.text(command, "--plot", "FILE", f"figure of {content}, .svg or .pdf (needs the extra plot)", "")


def _add_scale(command, default: str) -> None:
  times_100 = f"100: scores times 100, as papers have them; default: {default}"
  base.text(command, "--scale", "N", times_100, type=int, choices=(1, 100))


def _add_latex(command, columns: str) -> None:
  base.text(command, "--columns", "NAMES", f"columns of {columns}", "")


def _style(arguments):
  from xmcap import latex

  names = [name.strip() for name in arguments.columns.split(",")] if arguments.columns else []
  return latex.Style(tuple(names))


def _score(arguments) -> None:
  from xmcap import platforms, processes
  from xmcap.pages import output
  from xmcap.scoring import metrics
  from xmcap.scoring.options import ScoringOptions, check_count

  if arguments.predictions and not arguments.references:
    raise UsageError("no --references: give them, or see xmcap check, which needs none")
  base.require(arguments, ("references", "predictions", "out"))
  check_count("processes", arguments.processes, processes.MAX)
  files = output.files_of(arguments.out, *arguments.predictions)
  written = {"--out": files, "--save_df": arguments.save_df, "--plot": arguments.plot}
  read = {f"--{name}": getattr(arguments, name) for name in ("references", "predictions", "df", "subset")}
  if arguments.baseline:
    read["--baseline"] = os.path.join(arguments.baseline, "table.json")
  outputs.keep_apart(written, read)
  platforms.keep_memory()  # of the arrays of one language for those of the next
  with outputs.held_all(_places(arguments, "save_df", "plot"), arguments.prog):
    named_alike = [*_OF_FILES, *(field.name for field in dataclasses.fields(ScoringOptions))]
    options = {name: getattr(arguments, name) for name in named_alike if hasattr(arguments, name)}
    options |= {
      "metrics": None if arguments.metrics is None else metrics.parse(arguments.metrics),
      "health": not arguments.no_health,
      "processes": arguments.processes or processes.available_cores(),
    }
    result = output.score_files(
      references=arguments.references,
      predictions=arguments.predictions,
      out=arguments.out,
      columns=base.column_names(arguments),
      document_frequencies=arguments.df,
      save_document_frequencies=arguments.save_df,
      images_dir=arguments.images,
      style=_style(arguments),
      **options,
    )
  if not arguments.only_tables:
    _say_pictures(arguments, result.statistics)
  print(result.table.terminal(arguments.out))
  if result.health:
    print(output.health_text(result.health, not arguments.only_tables))


def _places(arguments, *files: str) -> list[tuple[str, str, bool]]:
  """The folder of --out and the files of these options, as far as they are given, for `outputs.held_all`."""
  options = {"out": True, **dict.fromkeys(files, False)}
  return [
    (f"--{name}", path, folder) for name, folder in options.items() if (path := getattr(arguments, name))
  ]


def _say_pictures(arguments, statistics) -> None:
  from xmcap.pages.report import pictures

  if arguments.pictures != "none" and (line := pictures.missing(arguments.images, statistics)):
    base.say(line)


def _add_compare(commands) -> None:
  command = base.add_command(
    commands, "compare", _compare,
    "test which systems are better than the first in each language",
    "Paired bootstrap and approximate randomisation, with Holm's correction over the languages.",
  )  # fmt: skip
  folders = "folders of xmcap score, or NAME=DIR; the first is the baseline"
  base.text(command, "systems", "DIR", folders, nargs="+")
  base.text(command, "--out", "DIR", "folder for comparison.* and the report", "", short="-o")
  base.text(command, "--metrics", "NAMES", "default: cider_d, or the first that was scored", "", short="-m")
  base.text(command, "--protocol", "NAME", "refuse scores that do not follow this protocol")
  references = "the references, to add a report of captions side by side"
  base.text(command, "--references", "FILE", references, [], short="-r", action="append")
  base.text(command, "--language", "CODE", "language of references without one", short="-l")
  base.number(command, "--resamples", "resamples per test", 10_000)
  base.number(command, "--seed", "seed of the resamples", 0)
  base.text(command, "--title", "TEXT", "title of the tables and the report", "")
  _add_scale(command, "the first system's")
  base.add_raw(command)
  _add_latex(
    command,
    "comparison.tex: code, language, baseline, baseline_interval, score, score_interval, difference, interval, "
    "p_bootstrap, p_randomization, p_holm",
  )
  _add_plot(command, "differences by language, in the first metric")
  _add_pictures(command)


def _compare(arguments) -> None:
  from xmcap.files import files
  from xmcap.pages import plot, side_by_side
  from xmcap.scoring import metrics
  from xmcap.scoring.comparing import comparison as comparison_lib
  from xmcap.scoring.comparing import significance

  folders = base.named_paths("DIR", arguments.systems, unnamed=True)
  if arguments.references and not arguments.out:
    raise UsageError("--references adds a report: give its folder with --out=DIR")
  if arguments.images and not arguments.references:
    raise UsageError("--images is for the report, which also needs captions: give --references=FILE")
  style = _style(arguments)
  style.check(comparison_lib.COLUMNS)
  if arguments.plot:
    plot.check(arguments.plot)
  names = [*(f"comparison.{suffix}" for suffix in ("csv", "json", "md", "tex")), "report.html"]
  written = [os.path.join(arguments.out, name) for name in names] if arguments.out else []
  outputs.keep_apart({"--out": written, "--plot": arguments.plot}, {"--references": arguments.references})
  with contextlib.ExitStack() as stack:
    stack.enter_context(outputs.held_all(_places(arguments, "plot"), arguments.prog))
    systems = {name: significance.read_system(folder) for name, folder in folders.items()}
    significance.check_protocol(systems, arguments.protocol)
    chosen = metrics.parse(arguments.metrics, metrics.METRICS) if arguments.metrics else None
    tests = {name: getattr(arguments, name) for name in ("resamples", "seed", "title", "scale")}
    comparison = significance.compare(systems, chosen, **tests)
    if arguments.out:
      stack.enter_context(outputs.together(arguments.out))
      comparison.write(arguments.out, style)
      # The folder may also be that of `xmcap score`, whose report stays.
      if not arguments.references and not os.path.exists(os.path.join(arguments.out, "table.json")):
        files.remove(os.path.join(arguments.out, "report.html"))
    if arguments.plot:
      stack.enter_context(outputs.together(arguments.plot, folder=False))
      plot.write_differences(arguments.plot, comparison)
    if arguments.references:
      side_by_side.write(
        arguments.out,
        systems,
        folders,
        arguments.references,
        comparison,
        language=arguments.language,
        images_dir=arguments.images,
        pictures=arguments.pictures,
      )
  if arguments.references:
    _say_pictures(arguments, next(iter(systems.values())).statistics)
  print(comparison.terminal(arguments.out))
